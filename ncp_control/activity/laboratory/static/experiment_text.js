// Changes as words of one line of plain text, and as words for people.

// Only letters, digits, "_", "." and a "-" between letters or digits stand for themselves in a name. So a line can be
// split at its signs whatever a name contains, also after a browser has written %3E for ">" in an address. Half of a
// pair of UTF-16, which has no other encoding, is %u and its number.
const encodedName = (name) => name.split(/([\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff])/).map((part, k) =>
  k % 2 && part.length === 1 ? `%u${part.charCodeAt(0).toString(16).toUpperCase()}`
    : encodeURIComponent(part).replace(/[!'()*~]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`),
).join("").replace(/(?<![A-Za-z0-9])-|-(?![A-Za-z0-9])/g, "%2D");

function decodedName(text) {
  try {
    return text.split(/%u([0-9A-F]{4})/).map((part, k) => k % 2 ? String.fromCharCode(parseInt(part, 16)) : decodeURIComponent(part)).join("");
  } catch {
    throw new Error(`${text} has a % that is not followed by the two digits of a character`);
  }
}

const linkText = ([source, sign, target]) => `${encodedName(source)}${sign}${encodedName(target)}`;

// Returns a link, or null for a text that is none.
function readLink(text) {
  const found = /^(.*?)(->|-%3E|--)(.*)$/.exec(text);
  return found && [decodedName(found[1]), found[2] === "--" ? "--" : "->", decodedName(found[3])];
}

function readNumber(text) {
  if (!/^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) throw new Error(`${text || "nothing"} is not a number`);
  return Number(text);
}

// What stands between a name and its value.
const VALUE_SIGNS = { state: "@", force: "@", factor: "*", slowness: "*" };

// Returns a change as one word, such as 120:silence=command0. `two`: whether the side must be said.
function changeText({ step, side, what, on, value }, two) {
  const kind = CHANGE_KINDS.get(what);
  const name = on === null ? "" : kind.on === "link" ? linkText(on) : encodedName(on);
  const amount = value === null ? "" : Array.isArray(value) ? value.join(",") : String(value);
  const rest = `${name}${value === null ? "" : VALUE_SIGNS[kind.value] || ""}${amount}`;
  return `${step}:${two && side ? `${side}/` : ""}${what}${rest && `=${rest}`}`;
}

// Returns the change that a word describes; its names are not checked.
function readChange(word) {
  const found = /^(\d+):(?:([ab])\/)?([a-z-]+)(?:=(.*))?$/s.exec(word);
  if (!found) throw new Error("a change is written STEP:CHANGE=NAME, such as 120:silence=command0");
  const [, step, side = "", what, rest = ""] = found, kind = CHANGE_KINDS.get(what);
  const change = { step: Number(step), side, what, on: null, value: null };
  if (!kind) return change;
  const sign = VALUE_SIGNS[kind.value], at = sign ? rest.lastIndexOf(sign) : kind.value ? 0 : rest.length;
  if (at < 0) throw new Error(`${what} is written ${what}=NAME${sign}VALUE`);
  const name = rest.slice(0, at), amount = rest.slice(at + (sign ? 1 : 0));
  if (kind.on) change.on = kind.on === "link" ? name : decodedName(name);
  else if (name) throw new Error(`${what} takes no name`);
  if (kind.value) change.value = kind.value === "force" ? amount.split(",").map(readNumber) : readNumber(amount);
  return change;
}

// Returns the words of a line. A line from an address has "&" or %20 between its words.
function wordsOf(line) {
  const text = line.trim();
  return text.split(/[\s&]/.test(text) ? /[\s&]+/ : /%20(?=\d+:|seed=)/).filter(Boolean);
}

// A number with six digits, as Python's format "g" writes it.
function shortNumber(value) {
  if (!Number.isFinite(value) || value === 0) return String(value || 0);
  const [digits, power] = value.toExponential(5).split("e").map(Number);
  if (power >= -4 && power < 6) return String(Number(value.toPrecision(6)));
  return `${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}

const plainLink = (link) => link.join("");

// Returns in words what holds after a change, without its step.
function changeWords({ what, on, value }) {
  switch (what) {
    case "silence": return `${on}=0`;
    case "hold": return `${on}=${shortNumber(value)}`;
    case "free": return `${on} free`;
    case "tau": return `${on} ${shortNumber(value)} times as slow`;
    case "cut": return plainLink(on);
    case "flip": return `${plainLink(on)} flipped`;
    case "mend": return `${plainLink(on)} mended`;
    case "scale": return `${plainLink(on)} times ${shortNumber(value)}`;
    case "hide": return `${on} hidden`;
    case "show": return `${on} shown`;
    case "push": return `${on} pushed with ${value.map(shortNumber).join(", ")} N`;
    case "as-it-was": return "everything as it was";
    default: return `${what} ${shortNumber(value)}`;
  }
}
