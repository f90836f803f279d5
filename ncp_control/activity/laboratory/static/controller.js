// An agent of `controller_data` in Python: its normalisation, its circuit, and the layers behind it.
//
//   z = clip((o - mean) / scale),    s' = cell.step(z, s),    action = limits(head(cell.motor(s')))

// A layer behind the circuit as a function from numbers to a new array of numbers.
function headLayer(layer) {
  const each = (value) => (values) => values.map(value);
  switch (layer.kind) {
    case "linear": {
      const linear = new LinearLayer(layer);
      return (values) => linear.of(values);
    }
    case "tanh": return each(Math.tanh);
    case "relu": return each(ACTIVATIONS.relu);
    case "elu": {
      const [alpha] = unpacked(layer.alpha);
      return each((x) => x > 0 ? x : alpha * Math.expm1(x));
    }
    case "silu": return each((x) => x * logistic(x));
    case "hardtanh": {
      const [low, high] = unpacked(layer.limits);
      return each((x) => limited(x, low, high));
    }
    case "scaled": {
      const gain = unpacked(layer.gain), offset = unpacked(layer.offset);
      return each((x, i) => gain[i] * x + offset[i]);
    }
    default: throw new Error(`this page cannot run the layer ${layer.kind}`);
  }
}

// A NaN stays one.
const limited = (x, low, high) => x < low ? low : x > high ? high : x;

class PageController {
  // `timed`: whether the cell gets the time that passed since the last step, and otherwise always 1.
  constructor(data) {
    this.cell = makeCell(data.cell);
    this.timed = data.timed;
    this.readsElapsed = data.readsElapsed;
    this.squashes = data.squashes;
    this.low = unpacked(data.low);
    this.high = unpacked(data.high);
    this.head = data.head.map(headLayer);
    this.mean = data.normalize && unpacked(data.normalize.mean);
    this.scale = data.normalize && unpacked(data.normalize.scale);
    this.clip = data.normalize && unpacked(data.normalize.clip)[0];
  }

  // What the circuit reads. The elapsed time is the last number in an agent whose cell has no other use for it.
  features(observation, elapsed = 1) {
    const { mean, scale, clip } = this, count = observation.length;
    const found = new Float64Array(count + (this.readsElapsed ? 1 : 0));
    for (let i = 0; i < count; i++)
      found[i] = mean ? limited((observation[i] - mean[i]) / scale[i], -clip, clip) : observation[i];
    if (this.readsElapsed) found[count] = elapsed;
    return found;
  }

  // The actions for the circuit's outputs.
  act(outputs) {
    const { low, high } = this;
    let found = outputs;
    for (const layer of this.head) found = layer(found);
    return found.map((x, i) =>
      limited(this.squashes ? low[i] + 0.5 * (x + 1) * (high[i] - low[i]) : x, low[i], high[i]));
  }
}
