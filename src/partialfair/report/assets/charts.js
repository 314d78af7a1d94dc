/* Figures. Each is redrawn at the width of its container, so that letters keep their size. */

const SVG = "http://www.w3.org/2000/svg";
const COLORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#8A63D2", "#A67C2E", "#7A7A7A"];
const MAP_COLORS = [
  [68, 1, 84],
  [59, 82, 139],
  [33, 145, 140],
  [94, 201, 98],
  [253, 231, 37],
]; // viridis

const LETTER = 7.2; // width of a digit in tick labels, in pixels
const LINE = 16; // height of a line of tick labels
const MOST_DECIMALS = 10; // a longer number is shorter with an exponent

const percent = (share, digits = 0) => `${fixed(100 * share, digits)}%`;
/** Groups also differ by line style; two groups of one color have different styles. */
const DASHES = ["none", "7 3", "2 2", "9 3 2 3", "5 2 2 2 2 2"];
const colorOf = (group) => COLORS[group % COLORS.length];
const dashOf = (group) => DASHES[(group + Math.floor(group / COLORS.length)) % DASHES.length];

const byId = (id) => document.getElementById(id);
const element = (name, text, classes = "") => {
  const made = document.createElement(name);
  made.textContent = text;
  if (classes) made.className = classes;
  return made;
};
/** A name short enough for a sentence; the table of groups has full names. */
const shortName = (name) => {
  const line = name.trim().replace(/\s+/g, " ") || "(blank)";
  return line.length <= 40 ? line : `${line.slice(0, 26)}…${line.slice(-12)}`;
};

const svg = (name, attributes = {}, ...children) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

/** The text, with an ellipsis in the middle if it is too long. */
const fitted = (text, room) => {
  const letters = [...text],
    most = Math.floor(room / LETTER);
  if (letters.length <= most) return text;
  const last = Math.floor(most / 2);
  return `${letters.slice(0, most - 1 - last).join("")}…${letters.slice(-last).join("")}`;
};

/** The labels below an axis that do not overlap, moved inside the figure. */
const withoutOverlap = (labels, width) => {
  const kept = [];
  let free = 0; // where the next label may begin
  for (const [at, text] of labels) {
    const half = (text.length * LETTER) / 2;
    const middle = clip(at, half, width - half);
    if (middle - half < free || Math.abs(middle - at) > half) continue;
    kept.push({ at, text, middle });
    free = middle + half + LETTER;
  }
  return kept;
};

/** Cached widths of figures: reading one while others are drawn would cause another layout. */
let widths = new WeakMap();
const forgetWidths = () => {
  widths = new WeakMap();
};
const widthOf = (place) => {
  if (!widths.has(place)) widths.set(place, Math.max(place.clientWidth, 260));
  return widths.get(place);
};

/** An empty figure with axes: returns the drawing and the functions from values to positions. */
const frame = (place, { height, x, y, margin = { left: 52, right: 20, top: 10, bottom: 44 } }) => {
  const width = widthOf(place);
  const tall = height(width);
  const tickWidth = Math.max(...y.ticks.map((value) => y.format(value).length), 0) * LETTER;
  const left = Math.max(margin.left, tickWidth + 26), // tick labels, and the name of the axis to their left
    right = width - margin.right,
    bottom = tall - margin.bottom;
  const scale =
    ([low, high], from, to) =>
    (value) =>
      from + ((value - low) / (high - low)) * (to - from);
  const toX = scale(x.range, left, right),
    toY = scale(y.range, bottom, margin.top);
  const drawing = svg("svg", { width, height: tall, viewBox: `0 0 ${width} ${tall}`, "aria-hidden": "true" });
  for (const { at, text, middle } of withoutOverlap(x.ticks.map((value) => [toX(value), x.format(value)]), width)) {
    drawing.append(
      svg("line", { x1: at, x2: at, y1: margin.top, y2: bottom, class: "grid" }),
      svg("text", { x: middle, y: bottom + 16, class: "tick", "text-anchor": "middle" }, text),
    );
  }
  for (const value of y.ticks) {
    drawing.append(
      svg("line", { x1: left, x2: right, y1: toY(value), y2: toY(value), class: "grid" }),
      svg(
        "text",
        { x: left - 6, y: toY(value) + 4, class: "tick", "text-anchor": "end" },
        y.format(value),
      ),
    );
  }
  const middle = (margin.top + bottom) / 2;
  drawing.append(
    svg(
      "text",
      { x: (left + right) / 2, y: tall - 8, class: "label", "text-anchor": "middle" },
      fitted(x.label, right - left),
    ),
    svg(
      "text",
      { x: 12, y: middle, class: "label", "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` },
      fitted(y.label, bottom - margin.top - 2 * LINE), // leaves room for the first and the last tick
    ),
  );
  place.replaceChildren(drawing);
  return { drawing, toX, toY, bottom };
};

const RANKS = { range: [0, 1], ticks: [0, 0.2, 0.4, 0.6, 0.8, 1], format: (value) => percent(value) };

/** About five round numbers between two ends. */
const roundTicks = (low, high) => {
  const step = 10 ** Math.floor(Math.log10((high - low) / 4));
  const wide = [1, 2, 5, 10].map((k) => k * step).find((one) => (high - low) / one <= 6);
  const first = Math.ceil(low / wide),
    last = Math.floor(high / wide + 1e-9);
  return Array.from({ length: Math.max(last - first + 1, 0) }, (_, k) => (first + k) * wide);
};
/** A possibly fractional number of members as a whole number, rounded as in `members_text` of the library. */
const membersText = (count) => Math.floor(count + 0.5 + 1e-6).toLocaleString("en");
/** Labels of ticks with as many digits as make them distinct. */
const tickLabels = (ticks) => {
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
  const largest = Math.max(...ticks.map(Math.abs));
  const decimals = Math.max(Math.ceil(-Math.log10(step) - 1e-9), 0);
  if (largest >= 1e7 || decimals > MOST_DECIMALS) {
    const digits = clip(Math.ceil(Math.log10(largest / step) - 1e-9), 0, 15);
    return (value) => value.toExponential(digits);
  }
  return (value) => value.toFixed(decimals);
};

/** The rank in one group against the rank in another, with the interval; the other model is dashed. */
const drawCurve = (place, { pair, bands, names, start, i, j, where, other }) => {
  const at = frame(place, {
    height: (width) => Math.min(width, 430),
    x: { ...RANKS, label: `rank in ${names[0]}, ${start}` },
    y: { ...RANKS, label: `rank in ${names[1]}` },
  });
  const { drawing, toX, toY } = at;
  const low = i / GRID,
    high = j / GRID;
  const slack = Math.min(pair.slack.interval, 1);
  const path = (points) => points.map(([x, y]) => `${toX(x).toFixed(1)},${toY(y).toFixed(1)}`).join(" ");
  const curve = (of) => {
    const points = [[0, 0]];
    for (let k = 0; k < of.visits.length; k += PER_VISIT) {
      const inside = [0, 4, 6, 2].map((d) => [of.visits[k + d], of.visits[k + d + 1]]);
      points.push(...inside.sort(([a, b], [c, d]) => a + b - c - d));
    }
    return path(points);
  };
  if (bands) {
    drawing.append(
      svg("polygon", {
        class: "unsure",
        points: path([
          [0, 0],
          [0, slack],
          [1 - slack, 1],
          [1, 1],
          [1, 1 - slack],
          [slack, 0],
        ]),
      }),
    );
  }
  drawing.append(
    svg("rect", {
      class: "interval",
      x: toX(low),
      y: toY(high),
      width: toX(high) - toX(low),
      height: toY(low) - toY(high),
    }),
    svg("line", { class: "diagonal", x1: toX(0), y1: toY(0), x2: toX(1), y2: toY(1) }),
  );
  if (other) drawing.append(svg("polyline", { class: "curve other", points: curve(other) }));
  drawing.append(svg("polyline", { class: "curve", points: curve(pair) }));
  if (where) drawing.append(mark("M-6-6L6 6M6-6L-6 6", "worst", toX(where[0]), toY(where[1])));
};

/** A mark, with the same meaning in all figures: cross, largest gap; diamond, largest gap elsewhere; ring, interval. */
const mark = (d, classes, x, y) => svg("path", { d, class: classes, transform: `translate(${x} ${y})` });

const SHARES = (top) => ({
  range: [0, 1.05 * top],
  ticks: roundTicks(0, 1.05 * top),
  format: (value) => percent(value, top < 0.05 ? 1 : 0),
  label: "proportion of the group",
});
const MOST_FAINT = 12;
/** The groups that are drawn in addition to those shown, unless there are too many. */
const faintOnes = ({ groups }, shown) =>
  groups.length <= MOST_FAINT ? groups.map((_, k) => k).filter((k) => !shown.includes(k)) : [];

/** Names of groups with their line styles. */
const drawLegend = (place, groups, shown) =>
  place.replaceChildren(
    ...groups.map(([k, name]) => {
      const style = { stroke: colorOf(k), "stroke-dasharray": dashOf(k) };
      const classes = shown.includes(k) ? "density" : "density faint";
      const line = svg("line", { class: classes, x1: 0, x2: 34, y1: 6, y2: 6, ...style });
      const item = document.createElement("li");
      item.append(svg("svg", { width: 34, height: 12, "aria-hidden": "true" }, line), name);
      return item;
    }),
  );

/** Distributions of scores by group: bars for discrete scores, steps otherwise. */
const drawDensities = (place, drawn) => (drawn.model.bars ? drawBars : drawSteps)(place, drawn);

/** Bars side by side, solid inside the interval; other groups are dashes. */
const drawBars = (place, { model, shown, i, j, t, top, higherIsBetter }) => {
  const { centres, labels, width, span, cuts } = model.bars;
  const { drawing, toX, toY, bottom } = frame(place, {
    height: () => 300,
    x: {
      range: span,
      ticks: centres,
      format: (value) => labels[centres.indexOf(value)],
      label: "score",
    },
    y: SHARES(top),
    margin: { left: 62, right: 20, top: 10, bottom: 44 },
  });
  const wide = toX(span[0] + width) - toX(span[0]);
  const each = wide / shown.length;
  shown.forEach((k, side) => {
    const group = model.groups[k];
    const bars = (classes, shares) =>
      shares.forEach((share, at) => {
        if (share < TOLERANCE) return;
        const x = toX(centres[at]) - wide / 2 + side * each;
        const [y, height] = [toY(share), bottom - toY(share)];
        drawing.append(svg("rect", { class: classes, fill: colorOf(k), x, y, width: each, height }));
      });
    bars("share", group.density);
    bars("share inside", group.densityInside(i, j, higherIsBetter));
  });
  for (const k of faintOnes(model, shown)) {
    model.groups[k].density.forEach((share, at) => {
      const [x, y] = [toX(centres[at]), toY(share)];
      drawing.append(
        svg("line", {
          class: "dash",
          stroke: colorOf(k),
          "stroke-dasharray": dashOf(k),
          x1: x - wide / 2,
          x2: x + wide / 2,
          y1: y,
          y2: y,
        }),
      );
    });
  }
  const cut = toX(cuts[t]);
  drawing.append(svg("line", { class: "threshold", x1: cut, x2: cut, y1: 10, y2: bottom }));
};

/** Steps, and below them the interval of each group. */
const drawSteps = (place, { model, shown, i, j, t, top }) => {
  const bars = 14 * shown.length;
  const [first, last] = [model.bins[0], model.bins[model.bins.length - 1]];
  const ticks = roundTicks(first, last);
  const { drawing, toX, toY, bottom } = frame(place, {
    height: () => 300 + bars,
    x: { range: [first, last], ticks, format: tickLabels(ticks), label: "score" },
    y: SHARES(top),
    margin: { left: 62, right: 20, top: 10, bottom: 44 + bars },
  });
  const steps = (group) => {
    const points = [];
    group.density.forEach((share, bin) => {
      for (const edge of [model.bins[bin], model.bins[bin + 1]])
        points.push(`${toX(edge).toFixed(1)},${toY(share).toFixed(1)}`);
    });
    return points.join(" ");
  };
  for (const k of [...faintOnes(model, shown), ...shown]) {
    drawing.append(
      svg("polyline", {
        class: shown.includes(k) ? "density" : "density faint",
        stroke: colorOf(k),
        "stroke-dasharray": dashOf(k),
        points: steps(model.groups[k]),
      }),
    );
  }
  shown.forEach((k, line) => {
    const { scores } = model.groups[k];
    const ends = [scores[j], scores[i]].map((score) => toX(clip(score, first, last)));
    const [from, to] = [Math.min(...ends), Math.max(...ends)];
    drawing.append(
      svg("rect", {
        class: "reach",
        fill: colorOf(k),
        x: from,
        y: bottom + 24 + 14 * line,
        width: Math.max(to - from, 2),
        height: 9,
      }),
    );
  });
  const cut = toX(clip(model.thresholds[t], first, last));
  drawing.append(svg("line", { class: "threshold", x1: cut, x2: cut, y1: 10, y2: bottom }));
};

/** The rate of positives in every tenth of a group against its mean score. */
const drawCalibration = (place, { model, shown }) => {
  const curves = model.groups.map((group) => group.calibration());
  const scores = curves.flatMap((points) => points.map(([score]) => score));
  const [low, high] = [Math.min(...scores), Math.max(...scores)];
  const range = high > low ? [low, high] : [low - 0.5, high + 0.5];
  const ticks = roundTicks(...range);
  const { drawing, toX, toY } = frame(place, {
    height: (width) => Math.min(0.8 * width, 340),
    x: { range, ticks, format: tickLabels(ticks), label: "mean score of a tenth of the group" },
    y: { ...RANKS, label: "rate of positives" },
  });
  for (const k of [...faintOnes(model, shown), ...shown]) {
    const faint = shown.includes(k) ? "" : " faint";
    const points = curves[k].map(([score, rate]) => [toX(score).toFixed(1), toY(rate).toFixed(1)]);
    const style = { stroke: colorOf(k), "stroke-dasharray": dashOf(k) };
    drawing.append(svg("polyline", { class: `density${faint}`, ...style, points: points.join(" ") }));
    if (!faint) for (const [cx, cy] of points) drawing.append(svg("circle", { cx, cy, r: 3, fill: colorOf(k) }));
  }
};

/** The gaps of all intervals of the same width, by first rank; marks show the largest gap elsewhere. */
const drawAlong = (place, { i, j, lines }) => {
  const width = j - i;
  const values = lines.flatMap(({ gaps, elsewhere }) => [...gaps, elsewhere ?? gaps[0]]);
  const top = Math.max(...values.map(({ value }) => value), 0.01);
  const ticks = roundTicks(0, 1.05 * top);
  const { drawing, toX, toY, bottom } = frame(place, {
    height: (room) => Math.min(0.8 * room, 340),
    x: { ...RANKS, label: `rank at which an interval of ${width}% begins` },
    y: { range: [0, 1.05 * top], ticks, format: tickLabels(ticks), label: "gap" },
  });
  const [from, to] = [Math.max(i - width, 0), Math.min(j, GRID)].map((rank) => toX(rank / GRID));
  drawing.append(svg("rect", { class: "overlapping", x: from, y: 10, width: to - from, height: bottom - 10 }));
  for (const { gaps, elsewhere, classes } of lines) {
    const points = gaps.map(({ value }, k) => `${toX(k / GRID).toFixed(1)},${toY(value).toFixed(1)}`);
    drawing.append(svg("polyline", { class: `curve ${classes}`, points: points.join(" ") }));
    drawing.append(svg("circle", { class: "worst", cx: toX(i / GRID), cy: toY(gaps[i].value), r: 6 }));
    if (elsewhere)
      drawing.append(mark("M0-7L7 0 0 7-7 0Z", "worst", toX(elsewhere.i / GRID), toY(elsewhere.value)));
  }
};

/** Positions of labels: the first free one around each point, without overlap of labels and points. */
const placeLabels = (points, [right, bottom]) => {
  const taken = points.map(({ x, y }) => ({ left: x - 8, right: x + 8, top: y - 8, bottom: y + 8 }));
  const isFree = (box) =>
    box.left >= 0 &&
    box.right <= right &&
    box.top >= 0 &&
    box.bottom <= bottom &&
    taken.every(
      (one) =>
        box.right < one.left || one.right < box.left || box.bottom < one.top || one.bottom < box.top,
    );
  return points.map(({ x, y, text }) => {
    const width = text.length * LETTER;
    const boxes = [10, 18, 30, 44, 60].flatMap((away) =>
      [
        [x + away, y - away],
        [x + away, y + away],
        [x - away - width, y - away],
        [x - away - width, y + away],
      ].map(([left, middle]) => ({ left, right: left + width, top: middle - 7, bottom: middle + 7 })),
    );
    const box = boxes.find(isFree) ?? boxes[0];
    taken.push(box);
    return box;
  });
};

/** Scores of models against their gaps. */
const drawFrontier = (place, { frontier, shown, choose, describe }) => {
  const ends = frontier.points.flatMap((p) => [p.low, p.high, p.gap]);
  const goods = frontier.points.flatMap((p) => [p.score - p.error, p.score + p.error]);
  const pad = (low, high) => [low - 0.05 * (high - low || 1), high + 0.05 * (high - low || 1)];
  const xs = [0, pad(0, Math.max(...ends))[1]],
    ys = pad(Math.min(...goods), Math.max(...goods));
  const axis = (range, label) => ({
    range,
    ticks: roundTicks(...range),
    format: tickLabels(roundTicks(...range)),
    label,
  });
  const { drawing, toX, toY, bottom } = frame(place, {
    height: (width) => Math.min(0.8 * width, 380),
    x: axis(xs, frontier.gapLabel),
    y: axis(ys, frontier.scoreLabel),
    margin: { left: 62, right: 20, top: 10, bottom: 44 },
  });
  drawing.removeAttribute("aria-hidden");
  drawing.setAttribute("role", "group");
  drawing.setAttribute("aria-label", "models of the path");
  const points = frontier.points.map((point) => ({ x: toX(point.gap), y: toY(point.score), text: point.name }));
  const boxes = placeLabels(points, [Number(drawing.getAttribute("width")), bottom]);
  frontier.points.forEach((point, k) => {
    const { x, y } = points[k],
      { left, right, top } = boxes[k];
    const dot = svg(
      "g",
      {
        class: `dot${point.chosen ? " chosen" : ""}${point.failed ? " failed" : ""}${point.model === shown ? " shown" : ""}`,
        tabindex: 0,
        role: "button",
        "aria-label": point.label,
        "aria-pressed": String(point.model === shown),
      },
      svg("line", { x1: toX(point.low), x2: toX(point.high), y1: y, y2: y }),
      svg("line", { x1: x, x2: x, y1: toY(point.score - point.error), y2: toY(point.score + point.error) }),
      svg("line", { class: "leader", x1: x, y1: y, x2: left > x ? left : right, y2: top + 7 }),
      svg("circle", { cx: x, cy: y, r: point.chosen ? 8 : 6 }),
      svg("text", { x: left, y: top + 11 }, point.name),
    );
    dot.addEventListener("click", () => choose(point.model));
    dot.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose(point.model);
    });
    for (const event of ["pointerenter", "focus"]) dot.addEventListener(event, () => describe(point.label));
    drawing.append(dot);
  });
};

/** The color of a fraction of the largest gap. */
const heat = (share) => {
  const place = clip(share, 0, 1) * (MAP_COLORS.length - 1);
  const below = Math.min(Math.floor(place), MAP_COLORS.length - 2);
  return MAP_COLORS[below].map((low, c) => low + (place - below) * (MAP_COLORS[below + 1][c] - low));
};

/** The map: first rank across, last rank upwards; faded if the true gap could be 0. */
class HeatMap {
  constructor(place, canvas, fades, onPick) {
    Object.assign(this, { place, canvas, fades, cells: [] });
    const pick = (event) => {
      const box = canvas.getBoundingClientRect();
      const i = Math.floor(((event.clientX - box.left) / box.width) * GRID);
      const j = Math.ceil((1 - (event.clientY - box.top) / box.height) * GRID);
      onPick(i, j);
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pick(event);
    });
    canvas.addEventListener("pointermove", (event) => event.buttons && pick(event));
  }

  /** The color range covers intervals of at least 10%: smaller ones contain few rows and saturate. */
  show(cells) {
    this.cells = cells;
    const wide = cells.filter(({ i, j }) => j - i >= 10).map(({ value }) => value);
    this.top = Math.max(...wide) > 1e-9 ? Math.max(...wide) : 1;
    this.exceeded = cells.some(({ value }) => value > this.top + 1e-9);
    this.paint();
  }

  /** Fade into the background of the report, or into another color. */
  paint(faded = getComputedStyle(this.place).getPropertyValue("--faded")) {
    const pale = faded.split(",").map(Number);
    const image = new ImageData(GRID, GRID);
    for (const { i, j, value, low } of this.cells) {
      const color = heat(value / this.top),
        faded = low > 0 || !this.fades ? 0 : 0.6;
      const at = 4 * ((GRID - j) * GRID + i);
      color.forEach((c, k) => {
        image.data[at + k] = c + faded * (pale[k] - c);
      });
      image.data[at + 3] = 255;
    }
    this.canvas.getContext("2d").putImageData(image, 0, 0);
  }
}
