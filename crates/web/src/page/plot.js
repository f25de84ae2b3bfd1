
// A value over the last five minutes, with axes, and the value under the pointer.

const PLOT = { height: 130, left: 48, right: 8, top: 8, bottom: 20, time: 300000 };

class Plot {
  // `curves`: a function each, from a sample and the one before to a number or null.
  constructor(figure, title, curves, write) {
    Object.assign(this, { figure, curves, write, samples: [], cursor: null, width: 420 });
    this.caption = make("figcaption");
    this.value = make("b");
    this.caption.append(make("span", "", title), this.value);
    this.title = title;
    this.svg = makeSvg("svg", { role: "img", tabindex: 0 });
    figure.replaceChildren(this.caption, this.svg);
    this.svg.addEventListener("pointermove", (event) => this.pointAt(event));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    this.svg.addEventListener("blur", () => this.point(null));
    this.svg.addEventListener("keydown", (event) => this.pressed(event));
  }

  show(samples) {
    this.samples = samples;
    this.draw();
  }

  pointAt(event) {
    const box = this.svg.getBoundingClientRect();
    const time = this.timeAt(((event.clientX - box.left) / box.width) * this.width);
    const distance = (sample) => Math.abs(sample[0] - time);
    let nearest = null;
    this.samples.forEach((sample, index) => {
      if (nearest === null || distance(sample) < distance(this.samples[nearest])) nearest = index;
    });
    this.point(nearest);
  }

  pressed(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || !this.samples.length) return;
    event.preventDefault();
    event.stopPropagation();
    this.point(Math.min(this.samples.length - 1, Math.max(0, (this.cursor ?? this.samples.length - 1) + by)));
  }

  point(index) {
    this.cursor = index;
    this.draw();
  }

  timeAt(x) {
    const share = (x - PLOT.left) / (this.width - PLOT.left - PLOT.right);
    return known.now - PLOT.time * (1 - share);
  }

  draw() {
    // One unit is one pixel, so that the text is as large as other text.
    this.width = Math.max(200, this.figure.clientWidth || this.width);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${PLOT.height}`);
    const values = this.curves.map((curve) => this.samples.map((sample, index) => curve(sample, this.samples[index - 1])));
    const top = niceTop(Math.max(...values.flat().filter((value) => value !== null), 0), this.write);
    const x = (time) => PLOT.left + (1 - (known.now - time) / PLOT.time) * (this.width - PLOT.left - PLOT.right);
    const y = (value) => PLOT.height - PLOT.bottom - (value / top) * (PLOT.height - PLOT.bottom - PLOT.top);
    const parts = [...this.axes(top, y)];
    values.forEach((curve, number) => parts.push(...this.curve(curve, number, x, y)));
    const at = this.cursor ?? this.samples.length - 1, sample = this.samples[at];
    if (this.cursor !== null && sample) parts.push(makeSvg("path", { class: "cursor", d: `M${x(sample[0])} ${PLOT.top}V${PLOT.height - PLOT.bottom}` }));
    this.svg.replaceChildren(...parts);
    const told = sample ? values.map((curve) => (curve[at] === null ? "-" : this.write(curve[at]))).join(" / ") : "no value yet";
    say(this.value, this.cursor !== null && sample ? `${told} at ${timeOfDay(sample[0])}` : told);
    this.svg.setAttribute("aria-label", `${this.title}: ${told}; up to ${this.write(top)} in the last five minutes`);
  }

  *axes(top, y) {
    const bottom = PLOT.height - PLOT.bottom, end = this.width - PLOT.right;
    for (const value of [0, top / 2, top]) {
      yield makeSvg("path", { class: "axis", d: `M${PLOT.left} ${y(value)}H${end}` });
      yield makeSvg("text", { x: PLOT.left - 6, y: y(value) + 4, "text-anchor": "end" }, value ? this.write(value) : "0");
    }
    const times = [["5 min ago", PLOT.left, "start"], ["2:30", (PLOT.left + end) / 2, "middle"], ["now", end, "end"]];
    for (const [text, x, anchor] of times) yield makeSvg("text", { x, y: bottom + 15, "text-anchor": anchor }, text);
  }

  *curve(values, number, x, y) {
    const points = [];
    this.samples.forEach((sample, index) => {
      if (values[index] !== null && x(sample[0]) >= PLOT.left) points.push([x(sample[0]), y(values[index])]);
    });
    if (!points.length) return;
    const line = points.map(([px, py]) => `${px.toFixed(1)} ${py.toFixed(1)}`).join("L");
    const bottom = PLOT.height - PLOT.bottom;
    if (number === 0) yield makeSvg("path", { class: "under", d: `M${points[0][0]} ${bottom}L${line}L${points.at(-1)[0]} ${bottom}Z` });
    yield makeSvg("path", { class: number ? "curve second" : "curve", d: `M${line}` });
  }
}

// The next round number, so that the axis stays while values move a little.
function niceTop(most, write) {
  const base = write === bytes ? 1024 : 1;
  let unit = base === 1 ? 1 : 1 << 20;
  if (base === 1024) while (most > unit * 1000) unit *= 1024;
  let round = unit;
  for (let power = 1; ; power *= 10) {
    for (const step of [1, 2, 4, 10]) {
      round = unit * power * step;
      if (round >= most) return round;
    }
  }
}
