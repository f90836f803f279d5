// NumPy's file of arrays: an archive without compression, in which each array is a member of format version 1.0.

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ 0xedb88320 : rest >>> 1;
  return rest;
});

function crc32(bytes) {
  let crc = 0xffffffff;
  for (let k = 0; k < bytes.length; k++) crc = CRC_TABLE[(crc ^ bytes[k]) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

const asciiBytes = (text) => Uint8Array.from(text, (sign) => sign.charCodeAt(0));

// Returns the member's two parts, the header and the numbers of an array. A text is an array of no dimension; of
// numbers there are { shape, data }, in which a Float32Array holds numbers, and a Uint8Array 0 or 1 for bool.
function npyParts(array) {
  let kind, shape = [], data;
  if (typeof array === "string") {
    const points = Uint32Array.from(array, (sign) => sign.codePointAt(0));
    [kind, data] = [`<U${points.length || 1}`, points.length ? points : new Uint32Array(1)];
  } else {
    if (array.data instanceof Uint8Array) kind = "|b1";
    else if (array.data instanceof Float32Array) kind = "<f4";
    else throw new Error("an array in a file of NumPy holds 32-bit numbers, or 0 and 1 in bytes");
    ({ shape, data } = array);
    const count = shape.reduce((product, size) => product * size, 1);
    if (count !== data.length) throw new Error(`an array of shape ${shape.join(" x ")} has ${count} numbers, and got ${data.length}`);
  }
  const sizes = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  const described = `{'descr': '${kind}', 'fortran_order': False, 'shape': (${sizes}), }`;
  // The numbers begin at a multiple of 64 bytes.
  const length = Math.ceil((10 + described.length + 1) / 64) * 64 - 10;
  const start = [0x93, ...asciiBytes("NUMPY"), 1, 0, length & 255, length >> 8];
  return [Uint8Array.of(...start, ...asciiBytes(`${described.padEnd(length - 1)}\n`)),
    new Uint8Array(data.buffer, data.byteOffset, data.byteLength)];
}

// Returns numbers of 16 and 32 bits as bytes, the least significant first: [bits, number, bits, number, ...].
function littleEndian(...fields) {
  const found = [];
  for (let k = 0; k < fields.length; k += 2)
    for (let bits = 0; bits < fields[k]; bits += 8) found.push(Math.floor(fields[k + 1] / 2 ** bits) & 255);
  return Uint8Array.from(found);
}

// Returns the file's bytes. arrays: { name: an array as in `npyParts` }; the names are ASCII.
function npzBytes(arrays) {
  const members = Object.entries(arrays).map(([name, array]) => [asciiBytes(`${name}.npy`), npyParts(array)]);
  const sizes = members.map(([, [header, data]]) => header.length + data.length);
  // What an archive of 32-bit sizes can hold is also about what a browser can give out at once.
  if (sizes.reduce((sum, size) => sum + size, 0) > 2 ** 31) throw new Error("the arrays have more than 2 GiB, which one file cannot hold: record fewer steps");
  const parts = [], directory = [];
  let at = 0, listed = 0;
  members.forEach(([name, [header, data]], k) => {
    const body = joined(Uint8Array, [header, data]);
    // Version 2.0, no flags, stored, at midnight of the first day that the format knows, so that equal runs give equal files.
    const facts = [16, 20, 16, 0, 16, 0, 16, 0, 16, 33, 32, crc32(body), 32, sizes[k], 32, sizes[k], 16, name.length, 16, 0];
    const local = littleEndian(32, 0x04034b50, ...facts);
    const entry = littleEndian(32, 0x02014b50, 16, 20, ...facts, 16, 0, 16, 0, 16, 0, 32, 0, 32, at);
    parts.push(local, name, body);
    directory.push(entry, name);
    at += local.length + name.length + body.length;
    listed += entry.length + name.length;
  });
  const count = members.length;
  return joined(Uint8Array, [...parts, ...directory,
    littleEndian(32, 0x06054b50, 16, 0, 16, 0, 16, count, 16, count, 32, listed, 32, at, 16, 0)]);
}
