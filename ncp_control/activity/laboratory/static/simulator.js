// MuJoCo in the page: its script and its WebAssembly, as `simulator_parts` packs them.

// A file that is no longer recommended in Gymnasium's half-cheetah says so each time it is compiled.
const USUAL_WARNING = "compiler attribute 'settotalmass' is deprecated";

async function openSimulator(script, wasm) {
  const element = document.createElement("script");
  element.textContent = script;
  document.head.append(element);
  element.remove();
  if (!window.loadMujoco) throw new Error("The browser did not run the simulator's script.");
  const packed = new Blob([bytesOf(wasm)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const said = (text) => { if (!text.includes(USUAL_WARNING)) console.warn(text); };
  return window.loadMujoco({ wasmBinary: await new Response(packed).arrayBuffer(), print: said, printErr: said });
}
