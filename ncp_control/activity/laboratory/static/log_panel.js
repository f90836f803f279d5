// What was changed, as one line; and the ways out of the page: a link, a command, a recording.

class LogPanel {
  constructor() {
    byId("undo").addEventListener("click", () => bench.undo());
    byId("as-it-was").addEventListener("click", () => bench.change("as-it-was"));
    byId("run-line").addEventListener("click", () => this.run());
    byId("copy-line").addEventListener("click", () => copy(bench.experiment.line(), "the line is copied"));
    byId("copy-link").addEventListener("click", () => copy(this.link(), "the link is copied; it opens this file with this experiment"));
    byId("copy-command").addEventListener("click", () => this.copyCommand());
    byId("save").addEventListener("click", () => this.save());
    byId("line").addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.run();
    });
    bench.onChange.push(() => this.refresh());
  }

  refresh() {
    byId("line").value = bench.experiment.line();
    try {
      history.replaceState(null, "", this.address());
    } catch { /* Some viewers do not let a page change its address. The page works without that. */ }
  }

  address() {
    const { experiment, exhibits } = bench;
    return `#${experiment.address()}${exhibits.b === null ? "" : `&beside=${exhibits.b}`}`;
  }

  link() { return new URL(this.address(), location.href).href; }

  run() {
    try {
      pause();
      bench.runLine(byId("line").value);
      say("the line runs from its first step: press play");
      restarted();
    } catch (error) {
      say(error.message, true);
    }
  }

  command() {
    const { exhibit } = bench.run;
    return bench.experiment.command(state.side, exhibit.file, Math.max(1, bench.run.steps), exhibit.command);
  }

  copyCommand() {
    const { command, leftOut } = this.command();
    copy(command, ["the command is copied", ...leftOut.map((one) => `not in it: ${one}`)].join("; "));
  }

  recording() {
    const { run } = bench;
    return recordingOf(run, run.exhibit.recording, {
      seeds: [run.seed], silenced: bench.experiment.words(state.side), note: { laboratory: bench.experiment.line() },
    });
  }

  save() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([this.recording()], { type: "application/octet-stream" }));
    link.download = `${bench.run.exhibit.name.replace(/[^\w.-]+/g, "_")}-laboratory.npz`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    say(`saved: look at it with ncp-control view ${link.download}`);
  }
}

// Copies a text, and shows it where a browser does not let a page do so.
function copy(text, words) {
  const shown = () => { byId("log-note").textContent = plainText(text); };
  shown();
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => say(words), () => say(`${words.replace("is copied", "is below the line")}`));
  else say(words.replace("is copied", "is below the line"));
}
