// The command with which a shell records the same experiment, as far as `ncp-control record` knows its changes.

// A word as a shell reads it: unchanged if it is harmless, otherwise in single quotes.
const shellWord = (text) => text && !/[^A-Za-z0-9_@%+=:,./-]/.test(text) ? text : `'${text.replaceAll("'", "'\"'\"'")}'`;

// Returns { command, leftOut }: the command for one circuit, and a sentence for each change that it leaves out.
//
// side: "a" or "b"
// checkpoint: the circuit's file
// steps: how many to record
// usual: { random: the share of random actions that the command takes by itself, env: the environment's id if the
//   command must be told, out: the file for the recording, after: the recordings at whose ends the seeds begin }
function recordCommand(experiment, side, checkpoint, steps, { random = null, env = null, out = "laboratory.npz", after = [] } = {}) {
  const start = experiment.conditionAt(0), leftOut = [], silence = [], clamp = [], cut = [];
  const omit = (what, why) => leftOut.push(`${what}: ${why}.`);
  for (const { side: own, what, on, value } of start.entries.values()) {
    if (own && own !== side) continue;
    const link = what === "factor" && experiment.names.ownLink(side, on);
    const text = changeWords({ on: link || on, ...Condition.step(what, start.usual(what), value) });
    if (what === "held" && on.startsWith("-")) omit(text, "the command cannot read a name that begins with a dash");
    else if (what === "held" && value === 0) silence.push(on);
    else if (what === "held" && on.includes("=")) omit(text, "the command cannot read a value after a name with =");
    else if (what === "held") clamp.push(`${on}=${value}`);
    else if (what === "factor" && value === 0) {
      if (link[1] === "--") omit(text, "the command cannot cut a gap junction");
      else if (isReadable(link)) cut.push(plainLink(link));
      else omit(text, "the command cannot read such names in a synapse");
    } else if (what === "factor") omit(text, "the command can only cut a synapse");
    else if (what !== "random") omit(text, "the command cannot change this");
  }
  for (const change of experiment.changes) {
    if (!change.step ? change.what !== "push" : change.side && change.side !== side) continue;
    const when = change.step ? `step ${change.step}: ` : "";
    omit(`${when}${changeWords(experiment.names.owned(change))}`, change.what === "push" ? "the command cannot push" : "the command changes nothing during a run");
  }
  const share = experiment.names.settings.has("random") ? start.get("", "random", null) : random;
  // A share that was computed of the training's differs from it in the last digit.
  const isUsual = share === random || (random !== null && Math.abs(share - random) < 1e-12);
  const words = [
    "record", checkpoint.startsWith("-") ? `./${checkpoint}` : checkpoint, ...(env ? ["--env", env] : []),
    "--steps", String(steps), ...(after.length ? ["--after", after[experiment.seed % after.length]] : ["--seed", String(experiment.seed)]), ...(isUsual ? [] : ["--random", String(share)]),
  ];
  for (const [option, list] of [["--silence", silence], ["--clamp", clamp], ["--cut", cut]]) if (list.length) words.push(option, ...list);
  return { command: ["ncp-control", ...words, "--out", out].map(shellWord).join(" "), leftOut };
}

// Whether the command finds both neurons in source->target.
function isReadable([source, , target]) {
  return !source.startsWith("-") && !source.includes("->") && [source, target].every((name) => name === name.trim());
}
