// Arrays as they arrive in the page, in base64.

function bytesOf(text) {
  const found = atob(text), bytes = new Uint8Array(found.length);
  for (let k = 0; k < found.length; k++) bytes[k] = found.charCodeAt(k);
  return bytes;
}

// Float64Array for the type "f8", Int32Array for "i4".
const unpacked = ({ type, data }) => new (type === "i4" ? Int32Array : Float64Array)(bytesOf(data).buffer);
