// Closed-form continuous-time cells, with linear maps f1, f2, a, b of x = [inputs, state] and time t elapsed:
//
//   default:  h' = tanh(f1) (1 - s) + s tanh(f2),   s = sigmoid(a t + b)
//   no_gate:  h' = tanh(f1) + s tanh(f2)
//   pure:     h' = A - A exp(-t (w_tau + |f1|)) f1
//
// A neuron that is k times slower sees the time t / k.

// What a CfC computes from a row of maps, whatever these read.
const closedForm = (Base) => class extends Base {
  constructor(data) {
    super(data);
    this.mode = data.mode;
    this.wTau = data.w_tau && unpacked(data.w_tau);
    this.A = data.A && unpacked(data.A);
  }

  // The new state of neuron j from its row of maps.
  combined(j, elapsed) {
    const { row, mode } = this, t = elapsed / this.slowness[j];
    if (mode === "pure") return this.A[j] - this.A[j] * Math.exp(-t * (this.wTau[j] + Math.abs(row[0]))) * row[0];
    const f1 = Math.tanh(row[0]), f2 = Math.tanh(row[1]), s = logistic(row[2] * t + row[3]);
    return mode === "no_gate" ? f1 + s * f2 : f1 * (1 - s) + s * f2;
  }

  // How fast the gate of neuron j closes with time.
  constantOf(j) {
    const rate = this.mode === "pure" ? this.wTau[j] + Math.abs(this.row[0]) : Math.abs(this.row[2]);
    return this.slowness[j] / rate;
  }
};

class CfcCell extends closedForm(LayeredCell) {
  // Each synapse's share of f1, and in modes with two of them of their mean.
  share(weights, k) {
    const { maps } = this;
    return this.mode === "pure" ? weights[k * maps] : (weights[k * maps] + weights[k * maps + 1]) / 2;
  }
}

// A CfC whose maps read x through dense layers with the activation 1.7159 tanh(0.666 x), which hide the synapses.
class BackboneCfcCell extends closedForm(BaseCell) {
  constructor(data) {
    super(data);
    this.maps = data.maps;
    this.bias = unpacked(data.bias);
    this.row = new Float64Array(this.maps);
    this.backbone = data.backbone.map((layer) => new LinearLayer(layer));
    this.head = unpacked(data.head);
    this.x = new Float64Array(this.inputs + this.units);
    this.between = this.backbone.map(({ rows }) => new Float64Array(rows));
    this.tune();
  }

  weigh() {}

  // Returns what the maps read.
  read(inputs, state) {
    this.x.set(inputs);
    this.x.set(state, this.inputs);
    let x = this.x;
    this.backbone.forEach((layer, k) => {
      x = layer.of(x, this.between[k]);
      for (let i = 0; i < x.length; i++) x[i] = 1.7159 * Math.tanh(0.666 * x[i]);
    });
    return x;
  }

  each(inputs, state, value) {
    const { maps, row } = this, x = this.read(inputs, state), found = new Float64Array(this.units);
    for (let j = 0; j < this.units; j++) {
      for (let m = 0; m < maps; m++) row[m] = this.bias[j * maps + m] + dot(this.head, (j * maps + m) * x.length, x, x.length);
      found[j] = value(j);
    }
    return found;
  }

  advance(inputs, state, elapsed) { return this.each(inputs, state, (j) => this.combined(j, elapsed)); }

  currents() { return this.unknownCurrents(); }

  timeConstants(inputs, before) { return this.each(inputs, before, (j) => this.constantOf(j)); }
}

CELL_KINDS.CfC = (data) => data.backbone ? new BackboneCfcCell(data) : new CfcCell(data);
