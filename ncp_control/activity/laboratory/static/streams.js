// The random streams of the wrappers: one for each kind and layer, as in `ncp_envs.streams`.

const STREAM_KEYS = { random: 0x6e637001, noise: 0x6e637002, dropout: 0x6e637003, irregular: 0x6e637004, delay: 0x6e637008 };

class Streams {
  constructor(ziggurat) {
    this.ziggurat = ziggurat;
    this.seed = null;
    this.found = new Map();
  }

  // kind: of the wrapper; layer: how many wrappers of this kind are inside of it.
  of(kind, layer) {
    const name = `${kind} ${layer}`;
    if (!this.found.has(name)) {
      const stream = { generator: new NumpyRandom(this.ziggurat), key: [STREAM_KEYS[kind], layer] };
      // Random actions have a stream of their own, so that the steps with one are the same for every action space.
      if (kind === "random") stream.actions = new NumpyRandom();
      this.found.set(name, stream);
      this.begin(stream);
    }
    return this.found.get(name);
  }

  begin({ generator, key, actions }) {
    if (this.seed !== null) generator.restart(this.seed, key);
    if (actions) actions.restart(generator.integers(1n << 63n));
  }

  restart(seed) {
    this.seed = seed;
    for (const stream of this.found.values()) this.begin(stream);
  }
}
