// NumPy's random numbers, bit for bit: `default_rng(SeedSequence(seed, spawn_key=key))`, whose generator is PCG64.

const WORD = 0xffffffffn, LONG_WORD = (1n << 64n) - 1n;

// The 32-bit words of a whole number of at least 0, the lowest first.
function wordsOfNumber(number) {
  const found = [];
  let rest = BigInt(number);
  do {
    found.push(Number(rest & WORD));
    rest >>= 32n;
  } while (rest);
  return found;
}

// Four 64-bit words that depend on every bit of a seed and of a key: `SeedSequence(seed, spawn_key=key)`.
function seedWords(seed, key = []) {
  const POOL = 4, pool = new Uint32Array(POOL), words = wordsOfNumber(seed);
  if (key.length) while (words.length < POOL) words.push(0);
  for (const part of key) words.push(...wordsOfNumber(part));
  let factor = 0x43b0d7e5;
  const hashed = (value) => {
    const mixed = value ^ factor;
    factor = Math.imul(factor, 0x931e8875);
    const product = Math.imul(mixed, factor);
    return product ^ (product >>> 16);
  };
  const mixedWith = (x, y) => {
    const difference = Math.imul(0xca01f9dd, x) - Math.imul(0x4973f715, y) | 0;
    return difference ^ (difference >>> 16);
  };
  for (let k = 0; k < POOL; k++) pool[k] = hashed(words[k] || 0);
  for (let from = 0; from < POOL; from++)
    for (let to = 0; to < POOL; to++) if (from !== to) pool[to] = mixedWith(pool[to], hashed(pool[from]));
  for (const word of words.slice(POOL))
    for (let to = 0; to < POOL; to++) pool[to] = mixedWith(pool[to], hashed(word));
  factor = 0x8b51f9dd;
  const halves = Array.from({ length: 8 }, (_, k) => {
    const mixed = pool[k % POOL] ^ factor;
    factor = Math.imul(factor, 0x58f38ded);
    const product = Math.imul(mixed, factor);
    return BigInt((product ^ (product >>> 16)) >>> 0);
  });
  return [0, 1, 2, 3].map((k) => halves[2 * k] | (halves[2 * k + 1] << 32n));
}

// The layers of the ziggurat under the normal density. Its widths come from the installed NumPy (see
// `world.py`), because every bit of them is in the numbers that are drawn; all else follows from them.
class Ziggurat {
  constructor(widths) {
    const edges = widths.map((width) => width * 2 ** 52);
    this.widths = widths;
    this.end = edges[255];
    this.heights = edges.map((edge, k) => k ? Math.exp(-0.5 * edge * edge) : 1);
    // Below these numbers a point is certainly under the density.
    this.inside = edges.map((edge, k) => k === 1 ? 0 : Math.floor((k ? edges[k - 1] : this.end) / edge * 2 ** 52));
  }
}

class NumpyRandom {
  // ziggurat: for `normal` alone.
  constructor(ziggurat) {
    this.ziggurat = ziggurat;
    this.restart(crypto.getRandomValues(new Uint32Array(1))[0]);
  }

  // As `default_rng(SeedSequence(seed, spawn_key=key))`.
  restart(seed, key = []) {
    const [high, low, first, second] = seedWords(seed, key);
    this.step = BigInt.asUintN(128, ((first << 64n | second) << 1n) | 1n);
    this.state = this.step + (high << 64n | low);
    this.half = null;
    this.advance();
  }

  advance() { this.state = BigInt.asUintN(128, this.state * 0x2360ed051fc65da44385df649fccf645n + this.step); }

  // 64 random bits.
  bits() {
    this.advance();
    const high = this.state >> 64n, turn = this.state >> 122n, mixed = (high ^ this.state) & LONG_WORD;
    return (mixed >> turn | mixed << (64n - turn)) & LONG_WORD;
  }

  // 32 random bits; the other half of 64 of them is kept for the next call.
  halfBits() {
    if (this.half !== null) {
      const found = this.half;
      this.half = null;
      return found;
    }
    const found = this.bits();
    this.half = found >> 32n;
    return found & WORD;
  }

  // From 0 to below 1.
  random() { return Number(this.bits() >> 11n) * 2 ** -53; }

  uniform(low, high) { return low + (high - low) * this.random(); }

  // A whole number from 0 to below `count`, as a BigInt; without a bias, by Lemire's method.
  integers(count) {
    const size = BigInt(count);
    if (size === 1n) return 0n;
    const width = size <= WORD + 1n ? 32n : 64n, draw = () => width === 32n ? this.halfBits() : this.bits();
    if (size === 1n << width) return draw();
    const mask = (1n << width) - 1n, least = ((1n << width) - size) % size;
    let product = draw() * size;
    while ((product & mask) < least) product = draw() * size;
    return product >> width;
  }

  // A standard normal number, by the ziggurat.
  normal() {
    const { widths, heights, inside, end } = this.ziggurat;
    for (;;) {
      const bits = this.bits(), layer = Number(bits & 0xffn), place = Number(bits >> 9n & 0xfffffffffffffn);
      const x = place * widths[layer] * (bits & 0x100n ? -1 : 1);
      if (place < inside[layer]) return x;
      if (layer === 0) return this.farOut(bits & 0x20000n ? -1 : 1, end);
      if ((heights[layer - 1] - heights[layer]) * this.random() + heights[layer] < Math.exp(-0.5 * x * x)) return x;
    }
  }

  // A number beyond the ziggurat's end.
  farOut(sign, end) {
    for (;;) {
      const beyond = -1 / end * Math.log1p(-this.random()), height = -Math.log1p(-this.random());
      if (height + height > beyond * beyond) return sign * (end + beyond);
    }
  }
}
