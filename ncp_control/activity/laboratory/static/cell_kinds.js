// The cell of `cell_data` in Python.

function makeCell(data) {
  switch (data.kind) {
    case "LTC": return new LtcCell(data);
    case "NeuralLTC": case "CTRNN": case "NeuralODE": return new AffineCell(data);
    case "CfC": return data.backbone ? new BackboneCfcCell(data) : new CfcCell(data);
    case "DualLTC": return new DualCell(data);
    case "LSTM": return new LstmCell(data);
    case "GRU": return new GruCell(data);
    case "CTGRU": return new CtGruCell(data);
    case "LaggedMLP": return new LaggedCell(data);
    case "MixedMemory": return new MixedCell(data);
    default: throw new Error(`this page cannot run the cell ${data.kind}`);
  }
}
