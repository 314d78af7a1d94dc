"use strict";
/* Exact gaps on an interval [i, j) of whole percents, from what the page holds of each model.
   The formulas are those of partialfair.metrics; ranks count from the top. */

const GRID = 100;
const TOLERANCE = 1e-12;
const PER_VISIT = 9; // first x, y, last x, y, (x, y) of the largest x − y, of the largest y − x, mass of pairs

const unpack = (text, Type = Float64Array) => {
  const raw = atob(text);
  const bytes = Uint8Array.from(raw, (letter) => letter.charCodeAt(0));
  return new Type(bytes.buffer);
};
const clip = (value, low, high) => Math.min(Math.max(value, low), high);
const cellOf = (rank) => Math.floor((rank + TOLERANCE) * GRID);
const urgency = (gap) => (Number.isNaN(gap.value) ? Infinity : gap.value); // an undefined gap comes first
const widest = (gaps) => gaps.reduce((best, gap) => (urgency(gap) > urgency(best) ? gap : best));
const within = (value, slack, most) => ({ low: Math.max(value - slack, 0), high: Math.min(value + slack, most) });

/** Two groups, and how the rank of one moves with that of the other as the score falls. */
class Pair {
  constructor(data, groups) {
    this.groups = data.groups;
    this.visits = unpack(data.visits);
    const [a, b] = data.groups.map((k) => groups[k].epsilon);
    this.slack = a + b;
    this.steps = Math.ceil(Math.max(a, b) * GRID);
    this.cells = [];
    for (let at = 0; at < this.visits.length; at += PER_VISIT) {
      this.cells.push([cellOf(this.visits[at]), cellOf(this.visits[at + 1])]);
    }
  }

  /** Statistical parity on the interval scale: the largest lead of one clipped rank over the other. */
  parity(i, j) {
    const low = i / GRID, high = j / GRID, v = this.visits;
    let best = 0, where = null;
    const offer = (lead, x, y) => {
      if (lead > best) [best, where] = [lead, [x, y]];
    };
    this.cells.forEach(([x, y], visit) => {
      const at = PER_VISIT * visit;
      const lead = (upper, lower, both, most, least, bothAt) => {
        if (upper < i || lower >= j) return;
        const first = [v[at], v[at + 1]], last = [v[at + 2], v[at + 3]];
        if (upper < j && lower >= i) offer(both, ...bothAt);
        else offer((upper < j ? most : high) - (lower >= i ? least : low), ...(lower >= i ? first : last));
      };
      lead(x, y, v[at + 4] - v[at + 5], v[at + 2], v[at + 1], [v[at + 4], v[at + 5]]);
      lead(y, x, v[at + 7] - v[at + 6], v[at + 3], v[at], [v[at + 6], v[at + 7]]);
    });
    const value = best / (high - low);
    return { value, ...within(value, this.slack / (high - low), 1), pair: this.groups, where };
  }

  /** The widest |x − y| where either rank lies in the interval; rank 1 counts only with `bottom`. */
  leadInside(i, j, bottom = false) {
    const end = bottom && j === GRID ? GRID + 1 : j, v = this.visits;
    let best = 0, where = null;
    this.cells.forEach(([x, y], visit) => {
      if (!((i <= x && x < end) || (i <= y && y < end))) return;
      const at = PER_VISIT * visit;
      for (const k of [at + 4, at + 6]) {
        const lead = Math.abs(v[k] - v[k + 1]);
        if (lead > best) [best, where] = [lead, [v[k], v[k + 1]]];
      }
    });
    return { value: best, where };
  }

  /** Statistical parity on the absolute scale; which scores belong to the interval is uncertain too. */
  parityAbsolute(i, j) {
    const { value, where } = this.leadInside(i, j);
    const [from, to] = [i + this.steps, j - this.steps];
    const inside = from < to ? this.leadInside(from, to).value : 0;
    const around = this.leadInside(Math.max(i - this.steps, 0), Math.min(j + this.steps, GRID), true).value;
    return {
      value, low: Math.max(inside - this.slack, 0), high: Math.min(around + this.slack, 1),
      pair: this.groups, where,
    };
  }

  /** |Pr(a scores higher than b) − ½| for members of the two intervals, ties counted ½. */
  groupAuc(i, j) {
    const low = i / GRID, high = j / GRID, v = this.visits;
    let auc = 0, x0 = low, y0 = low;
    for (let at = 0; at < v.length; at += PER_VISIT) {
      const x = clip(v[at], low, high), y = clip(v[at + 1], low, high);
      auc += (x - x0) * (high - y + 0.5 * (y - y0)); // the block of ties between two visits
      x0 = clip(v[at + 2], low, high);
      y0 = clip(v[at + 3], low, high);
      auc += (x0 - x) * (high - y0) + (x0 > x && y0 > y ? v[at + 8] : 0);
    }
    const width = high - low, chance = auc / (width * width), value = Math.abs(chance - 0.5);
    return { value, ...within(value, this.slack / width, 0.5), pair: this.groups, chance };
  }
}

/** One group: what lies above whole percents and above thresholds. */
class Group {
  constructor(data) {
    Object.assign(this, data);
    for (const key of ["scores", "rows", "ranks", "positives", "positivesAbove"]) {
      if (key in data) this[key] = unpack(data[key]);
    }
    this.density = unpack(data.density, Float32Array);
    this.hasLabels = "positives" in data;
  }

  inside(i, j) {
    return this.rows[j] - this.rows[i];
  }

  /** Effective members inside, as the warnings of the library count them. */
  effectiveInside(i, j) {
    return (this.nEffective * (j - i)) / GRID;
  }

  /** Members with a label above rank knots and above a threshold, as shares of the group. */
  labelled(positive, t) {
    const share = (k) => (positive ? this.positives[k] : k / GRID - this.positives[k]);
    const above = positive ? this.positivesAbove[t] : this.ranks[t] - this.positivesAbove[t];
    return { share, above, all: share(GRID) };
  }

  /** Selected share of the interval, and of the group: demographic parity. */
  selected(i, j, t) {
    const share = clip(this.ranks[t], i / GRID, j / GRID) - i / GRID;
    return { interval: share / ((j - i) / GRID), absolute: share };
  }

  /** Selected share among those with a label: equal opportunity. */
  selectedWith(positive, i, j, t, rankWithin) {
    const { share, above, all } = this.labelled(positive, t);
    if (all <= TOLERANCE) return { interval: NaN, absolute: NaN };
    const low = i / GRID, high = j / GRID;
    if (rankWithin === "group_and_label") {
      const passed = clip(above / all, low, high) - low;
      return { interval: passed / (high - low), absolute: passed };
    }
    const rank = this.ranks[t];
    const upTo = (knot) => (rank < knot / GRID ? above : share(knot));
    const picked = upTo(j) - upTo(i), total = share(j) - share(i);
    return {
      interval: total / (high - low) > TOLERANCE ? picked / total : NaN,
      absolute: Math.min(picked / all, 1),
    };
  }
}

/** The widest gap of all pairs on every interval, where there are too many pairs for the page. */
class WorstOfAll {
  constructor(data, pairs, groups) {
    this.kinds = {};
    for (const [kind, { values, pair }] of Object.entries(data.kinds)) {
      this.kinds[kind] = { values: unpack(values), pair: unpack(pair, Uint16Array) };
    }
    this.bottom = data.bottom;
    this.pairs = pairs;
    const [first, second] = groups.map((group) => group.epsilon).sort((a, b) => b - a);
    this.slack = first + second;
    this.steps = Math.ceil(first * GRID);
  }

  at(kind, i, j) {
    const place = i * GRID - (i * (i - 1)) / 2 + (j - 1 - i); // of (i, j − 1) in the upper triangle
    const { values, pair } = this.kinds[kind];
    return { value: values[place], pair: this.pairs[pair[place]] };
  }

  parity(i, j) {
    const found = this.at("interval", i, j);
    return { ...found, ...within(found.value, (this.slack * GRID) / (j - i), 1) };
  }

  parityAbsolute(i, j) {
    const [from, to] = [i + this.steps, j - this.steps];
    const inside = from < to ? this.at("absolute", from, to).value : 0;
    const end = Math.min(j + this.steps, GRID);
    const around = Math.max(this.at("absolute", Math.max(i - this.steps, 0), end).value, end === GRID ? this.bottom : 0);
    const low = Math.max(inside - this.slack, 0), high = Math.min(around + this.slack, 1);
    return { ...this.at("absolute", i, j), low, high };
  }

  groupAuc(i, j) {
    const found = this.at("auc", i, j);
    return { ...found, ...within(found.value, (this.slack * GRID) / (j - i), 0.5) };
  }
}

/** The scores of one model. */
class Model {
  constructor(data, rankWithin) {
    this.name = data.name;
    this.rankWithin = rankWithin;
    this.thresholds = data.thresholds;
    this.bins = data.bins;
    this.nPairs = data.nPairs;
    this.groups = data.groups.map((group) => new Group(group));
    this.pairs = data.pairs.map((pair) => new Pair(pair, this.groups));
    this.allPairs = this.groups.flatMap((_, k) => this.groups.slice(k + 1).map((__, d) => [k, k + 1 + d]));
    this.worst = data.worst && new WorstOfAll(data.worst, this.allPairs, this.groups);
    this.hasLabels = this.groups.every((group) => group.hasLabels);
    this.pairwise = data.pairwise && {
      inter: unpack(data.pairwise.inter), intra: unpack(data.pairwise.intra),
    };
  }

  /** Of the given pair, or the widest of all. */
  ofPairs(kind, i, j, pair) {
    if (pair) return pair[kind](i, j);
    if (this.worst) return this.worst[kind](i, j);
    const gaps = this.pairs.map((one) => one[kind](i, j));
    const found = widest(gaps);
    // The widest true gap is at least the largest lower end and at most the largest upper end.
    return { ...found, low: Math.max(...gaps.map((g) => g.low)), high: Math.max(...gaps.map((g) => g.high)) };
  }

  /** Widest difference between shares of groups; with a slack that is known, its band. */
  ofShares(shares, pair, scale, slackOf) {
    const pairs = pair ? [pair.groups] : this.allPairs;
    const gaps = pairs.map(([k, l]) => {
      const value = Math.abs(shares[k][scale] - shares[l][scale]);
      const slack = slackOf && slackOf(this.groups[k].epsilon + this.groups[l].epsilon);
      return { value, pair: [k, l], ...(slackOf ? within(value, slack, 1) : {}) };
    });
    const found = widest(gaps);
    if (!slackOf) return found;
    return { ...found, low: Math.max(...gaps.map((g) => g.low)), high: Math.max(...gaps.map((g) => g.high)) };
  }

  /** Every metric on both scales: {metric: {interval, absolute}}, each with value, pair and perhaps a band. */
  gaps(i, j, t, pair = null) {
    const width = (j - i) / GRID;
    const scales = (of) => ({ interval: of("interval"), absolute: of("absolute") });
    const selected = this.groups.map((group) => group.selected(i, j, t));
    const found = {
      statistical_parity: {
        interval: this.ofPairs("parity", i, j, pair), absolute: this.ofPairs("parityAbsolute", i, j, pair),
      },
      demographic_parity: scales((scale) =>
        this.ofShares(selected, pair, scale, (slack) => (scale === "interval" ? slack / width : slack))),
      group_auc: { interval: this.ofPairs("groupAuc", i, j, pair), absolute: null },
    };
    if (!this.hasLabels) return found;
    const withLabel = [true, false].map((positive) =>
      this.groups.map((group) => group.selectedWith(positive, i, j, t, this.rankWithin)));
    found.equal_opportunity = scales((scale) => this.ofShares(withLabel[0], pair, scale));
    found.equalized_odds = scales((scale) =>
      widest(withLabel.map((shares) => this.ofShares(shares, pair, scale))));
    const { inter, intra } = this.pairwise;
    const everywhere = (valueOf) => ({
      interval: widest(this.allPairs.map(([k, l], place) => ({ value: valueOf(k, l, place), pair: [k, l] }))
        .filter(({ pair: [k, l] }) => !pair || (k === pair.groups[0] && l === pair.groups[1]))),
      absolute: null,
    });
    found.inter_group_pairwise = everywhere((k, l, place) => inter[place]);
    found.intra_group_pairwise = everywhere((k, l) => Math.abs(intra[k] - intra[l]));
    return found;
  }

  /** The map: gaps and lower ends of all intervals of at least `least` percents. */
  map(scale, pair, least) {
    const kind = scale === "interval" ? "parity" : "parityAbsolute";
    const cells = [];
    for (let i = 0; i < GRID; i += 1) {
      for (let j = i + least; j <= GRID; j += 1) {
        const { value, low } = this.ofPairs(kind, i, j, pair);
        cells.push({ i, j, value, low });
      }
    }
    return cells;
  }
}
