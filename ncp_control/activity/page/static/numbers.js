// Arrays as they arrive in a page, in base64.

const ARRAY_KINDS = { u1: Uint8Array, u2: Uint16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };

function bytesOf(text) {
  const found = atob(text), bytes = new Uint8Array(found.length);
  for (let k = 0; k < found.length; k++) bytes[k] = found.charCodeAt(k);
  return bytes;
}

const unpacked = ({ type, data }) => new ARRAY_KINDS[type](bytesOf(data).buffer);

// The arrays of a list behind each other. Kind: of the array that is returned, such as Float64Array.
function joined(Kind, parts) {
  const found = new Kind(parts.reduce((count, part) => count + part.length, 0));
  let at = 0;
  for (const part of parts) {
    found.set(part, at);
    at += part.length;
  }
  return found;
}
