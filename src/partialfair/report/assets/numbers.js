"use strict";
/* Exact gaps on an interval [i, j) of whole percents, from the data of each model in the report.
   The formulas are those of partialfair.metrics; ranks count from the best score. */

const GRID = 100;
const TOLERANCE = 1e-12;
const PER_VISIT = 9; // first x, y, last x, y, (x, y) of the largest x − y, of the largest y − x, mass of pairs

const unpack = (text, Type = Float64Array) => {
  const raw = atob(text);
  const bytes = Uint8Array.from(raw, (letter) => letter.charCodeAt(0));
  return new Type(bytes.buffer);
};

const SURE_DECIMALS = 12; // later digits depend on the order of summation and must not decide a rounding
const EXACT_DIGITS = 25; // digits that show whether a number lies halfway between two
/** Whether to use the lower of two texts: numbers halfway between them are rounded to even, as in Python. */
const isEvenBelow = (exact, tail) => tail === "5".padEnd(tail.length, "0") && /[02468]\.?$/.test(exact);
/** A number with this many decimals, as `fixed` of partialfair.utils.text formats it. */
const fixed = (value, digits) => {
  const near = Number(value.toFixed(SURE_DECIMALS)) + 0; // no minus before zero
  const exact = near.toFixed(digits + EXACT_DIGITS);
  const [below, tail] = [exact.slice(0, -EXACT_DIGITS), exact.slice(-EXACT_DIGITS)];
  return isEvenBelow(below, tail) ? below.replace(/\.$/, "") : near.toFixed(digits);
};
/** A number with this many digits, with an exponent if it is long, as Python formats `:.6g`. */
const general = (value, digits = 6) => {
  const [exact, exactPower] = value.toExponential(digits - 1 + EXACT_DIGITS).split("e");
  const [below, tail] = [exact.slice(0, -EXACT_DIGITS), exact.slice(-EXACT_DIGITS)];
  const [mantissa, power] = isEvenBelow(below, tail)
    ? [below, exactPower]
    : value.toExponential(digits - 1).split("e");
  if (power >= -4 && power < digits) return String(Number(`${mantissa}e${power}`));
  return `${Number(mantissa)}e${power[0]}${power.slice(1).padStart(2, "0")}`;
};
const clip = (value, low, high) => Math.min(Math.max(value, low), high);
const cellOf = (rank) => Math.floor((rank + TOLERANCE) * GRID);
const urgency = (gap) => (Number.isNaN(gap.value) ? Infinity : gap.value); // an undefined gap comes first
const widest = (gaps) => gaps.reduce((best, gap) => (urgency(gap) > urgency(best) ? gap : best));
const largest = (gaps, key) => gaps.reduce((most, gap) => Math.max(most, gap[key]), 0);
/** The largest true gap is at least the largest lower end and at most the largest upper end. */
const widestWithBand = (gaps) => ({
  ...widest(gaps),
  low: largest(gaps, "low"),
  high: largest(gaps, "high"),
});
const within = (value, slack, most) => ({
  low: Math.max(value - slack, 0),
  high: Math.min(value + slack, most),
});

/** Radii of pairs: bounds on the errors of differences, as in partialfair.metrics.map_radii. */
class Radii {
  constructor(groups, levels) {
    this.groups = groups;
    this.levels = levels; // null stands for infinity
    const [first, second] = groups.map(({ noise }) => noise).sort((a, b) => b - a);
    this.largestUnit = first + second;
  }

  ofPair([k, l], level, radius) {
    const [a, b] = [this.groups[k], this.groups[l]];
    const unit = a.noise + b.noise,
      most = a[radius] + b[radius];
    if (level === null) return most;
    return Math.min(Math.sqrt(unit * (level + 0.5 * Math.log(this.largestUnit / unit))), most);
  }

  /** The radius of clipped differences, times the width of the interval. */
  interval(pair) {
    return this.ofPair(pair, this.levels.interval, "epsilon");
  }

  /** The radius of differences of ranks, while errors of ranks are at most the `membership` of their group. */
  absolute(pair) {
    return this.ofPair(pair, this.levels.absolute, "membership");
  }

  /** The radius of probabilities: errors of the two groups may add up. */
  chance([k, l]) {
    return this.groups[k].epsilon + this.groups[l].epsilon;
  }

  /** The largest error of the ranks of a group, in whole percents. */
  steps(k) {
    return Math.ceil(this.groups[k].membership * GRID);
  }
}

/** The largest min(u, high) − max(l, low) over one visit: the clipped lead of rank u over rank l. */
const sideLead = (upper, lower, i, j, both, most, least) => {
  if (upper < i || lower >= j) return 0;
  if (upper < j && lower >= i) return both;
  return (upper < j ? most : j / GRID) - (lower >= i ? least : i / GRID);
};

/** Two groups, and the rank curve: the ranks in both groups as the score falls. */
class Pair {
  constructor(data, radii) {
    this.groups = data.groups;
    this.visits = unpack(data.visits);
    this.n = this.visits.length / PER_VISIT;
    this.slack = {
      interval: radii.interval(data.groups),
      absolute: radii.absolute(data.groups),
      chance: radii.chance(data.groups),
    };
    this.steps = data.groups.map((k) => radii.steps(k));
    const column = (of) => Array.from({ length: this.n }, (_, k) => of(PER_VISIT * k));
    this.columns = Int16Array.from(column((at) => cellOf(this.visits[at])));
    this.rows = Int16Array.from(column((at) => cellOf(this.visits[at + 1])));
    this.leads = [4, 6].map((d) =>
      Float64Array.from(column((at) => Math.abs(this.visits[at + d] - this.visits[at + d + 1]))),
    );
  }

  point(visit, which) {
    return [this.visits[PER_VISIT * visit + which], this.visits[PER_VISIT * visit + which + 1]];
  }

  /** Statistical parity on the interval scale: the largest lead of one clipped rank over the other. */
  parity(i, j) {
    const {
      visits,
      columns,
      rows,
      leads: [ahead, behind],
    } = this;
    let best = 0,
      at = -1,
      side = 0;
    for (let k = 0; k < this.n; k += 1) {
      const v = PER_VISIT * k,
        x = columns[k],
        y = rows[k];
      const first = sideLead(x, y, i, j, ahead[k], visits[v + 2], visits[v + 1]);
      const second = sideLead(y, x, i, j, behind[k], visits[v + 3], visits[v]);
      if (first > best) [best, at, side] = [first, k, 0];
      if (second > best) [best, at, side] = [second, k, 1];
    }
    const width = (j - i) / GRID,
      value = best / width;
    return { value, ...within(value, this.slack.interval / width, 1), pair: this.groups, at, side };
  }

  /** The ranks at which a result of `parity` attains the gap on the interval scale. */
  whereParity({ at, side }, i, j) {
    if (at < 0) return null;
    const [upper, lower] = side === 0 ? [this.columns[at], this.rows[at]] : [this.rows[at], this.columns[at]];
    if (upper < j && lower >= i) return this.point(at, side === 0 ? 4 : 6);
    return this.point(at, lower >= i ? 0 : 2); // the lead is clipped at the least or the largest rank
  }

  /** The largest |x − y| for ranks of each group in its range of whole percents, [from, to). */
  leadInside([fromX, toX], [fromY, toY]) {
    const {
      columns,
      rows,
      leads: [ahead, behind],
    } = this;
    let best = 0,
      at = -1,
      side = 0;
    for (let k = 0; k < this.n; k += 1) {
      const x = columns[k],
        y = rows[k];
      if (!((fromX <= x && x < toX) || (fromY <= y && y < toY))) continue;
      if (ahead[k] > best) [best, at, side] = [ahead[k], k, 0];
      if (behind[k] > best) [best, at, side] = [behind[k], k, 1];
    }
    return { value: best, at, side };
  }

  /** Statistical parity on the absolute scale, where the scores at the ends of the interval are uncertain too. */
  parityAbsolute(i, j) {
    const { value, at, side } = this.leadInside([i, j], [i, j]);
    const shrunk = this.steps.map((steps) => [i + steps, j - steps]);
    // A score at the end may lie below the whole sample: at rank 1, which is cell GRID.
    const widened = this.steps.map((steps) => [i - steps, j + steps < GRID ? j + steps : GRID + 1]);
    return {
      value,
      low: Math.max(this.leadInside(...shrunk).value - this.slack.absolute, 0),
      high: Math.min(this.leadInside(...widened).value + this.slack.absolute, 1),
      pair: this.groups,
      at,
      side,
    };
  }

  whereParityAbsolute({ at, side }) {
    return at < 0 ? null : this.point(at, side === 0 ? 4 : 6);
  }

  /** |Pr(a scores higher than b) − ½| for members of the two intervals, ties counted ½. */
  groupAuc(i, j) {
    const low = i / GRID,
      high = j / GRID,
      { visits: v, columns, rows } = this;
    let auc = 0,
      x0 = low,
      y0 = low;
    for (let k = 0; k < this.n; k += 1) {
      const at = PER_VISIT * k,
        x = clip(v[at], low, high),
        y = clip(v[at + 1], low, high);
      auc += (x - x0) * (high - y + 0.5 * (y - y0)); // ties between two visits
      x0 = clip(v[at + 2], low, high);
      y0 = clip(v[at + 3], low, high);
      auc += (x0 - x) * (high - y0);
      if (i <= columns[k] && columns[k] < j && i <= rows[k] && rows[k] < j) auc += v[at + 8];
    }
    const width = high - low,
      value = Math.abs(auc / (width * width) - 0.5);
    return { value, ...within(value, this.slack.chance / width, 0.5), pair: this.groups };
  }
}

/** One group, with sums above whole percents and above thresholds. */
class Group {
  constructor(data) {
    Object.assign(this, data);
    for (const key of ["scores", "rows", "ranks", "density", "positives", "positivesAbove", "tenths"]) {
      if (key in data) this[key] = unpack(data[key]);
    }
    this.hasLabels = "positives" in data;
  }

  inside(i, j) {
    return this.rows[j] - this.rows[i];
  }

  /** The proportion of the group that lies in [i, j), for each bar of discrete scores. */
  densityInside(i, j, higherIsBetter) {
    const clipped = (rank) => clip(rank, i / GRID, j / GRID);
    let rank = higherIsBetter ? 1 : 0; // the rank of the lowest value
    return Array.from(this.density, (share) => {
      const before = rank;
      rank += higherIsBetter ? -share : share;
      return Math.abs(clipped(before) - clipped(rank));
    });
  }

  /** Mean score and rate of positives of every tenth of the group, the best tenth first. */
  calibration() {
    const tenth = GRID / 10;
    return Array.from(this.tenths, (score, k) => [
      score,
      (this.positives[(k + 1) * tenth] - this.positives[k * tenth]) * 10,
    ]);
  }

  /** Effective sample size in the interval, as in the warnings of the library. */
  effectiveInside(i, j) {
    return (this.nEffective * (j - i)) / GRID;
  }

  /** Proportions of the group with a label above whole percents and above a threshold. */
  labelled(positive, t) {
    const share = (k) => (positive ? this.positives[k] : k / GRID - this.positives[k]);
    const above = positive ? this.positivesAbove[t] : this.ranks[t] - this.positivesAbove[t];
    return { share, above, all: share(GRID) };
  }

  /** The rank of a threshold, within the label if rows are ranked within group and label. */
  rankAt(t, label, rankWithin) {
    if (label === null || rankWithin === "group") return this.ranks[t];
    const { above, all } = this.labelled(label, t);
    return above / all;
  }

  /** Selected proportion of the interval, and of the group: demographic parity. */
  selected(i, j, t) {
    const share = clip(this.ranks[t], i / GRID, j / GRID) - i / GRID;
    return { interval: share / ((j - i) / GRID), absolute: share };
  }

  /** Selected proportion of members with a label: equal opportunity. */
  selectedWith(positive, i, j, t, rankWithin) {
    const { share, above, all } = this.labelled(positive, t);
    if (all <= TOLERANCE) return { interval: NaN, absolute: NaN };
    const low = i / GRID,
      high = j / GRID;
    if (rankWithin === "group_and_label") {
      const passed = clip(above / all, low, high) - low;
      return { interval: passed / (high - low), absolute: passed };
    }
    const rank = this.ranks[t];
    const upTo = (knot) => (rank < knot / GRID ? above : share(knot));
    const picked = upTo(j) - upTo(i),
      total = share(j) - share(i);
    return {
      interval: total / (high - low) > TOLERANCE ? picked / total : NaN,
      absolute: Math.min(picked / all, 1),
    };
  }
}

/** The largest gap of all pairs on every interval, if there are too many pairs for the report. */
class WorstOfAll {
  constructor(data, pairs, groups, radii) {
    this.kinds = {};
    for (const [kind, { values, pair }] of Object.entries(data.kinds)) {
      this.kinds[kind] = { values: unpack(values), pair: unpack(pair, Uint32Array) };
    }
    this.bottom = data.bottom;
    this.pairs = pairs;
    const most = (of, values) => values.reduce((best, value) => Math.max(best, of(value)), 0);
    this.slack = {
      interval: most((pair) => radii.interval(pair), pairs),
      absolute: most((pair) => radii.absolute(pair), pairs),
      chance: most((pair) => radii.chance(pair), pairs),
    };
    this.steps = most((k) => radii.steps(k), [...groups.keys()]);
  }

  at(kind, i, j) {
    const place = i * GRID - (i * (i - 1)) / 2 + (j - 1 - i); // index of (i, j − 1) in the upper triangle
    const { values, pair } = this.kinds[kind];
    return { value: values[place], pair: this.pairs[pair[place]] };
  }

  parity(i, j) {
    const found = this.at("interval", i, j);
    return { ...found, ...within(found.value, (this.slack.interval * GRID) / (j - i), 1) };
  }

  parityAbsolute(i, j) {
    const [from, to] = [i + this.steps, j - this.steps];
    const inside = from < to ? this.at("absolute", from, to).value : 0;
    const end = Math.min(j + this.steps, GRID);
    const around = Math.max(
      this.at("absolute", Math.max(i - this.steps, 0), end).value,
      end === GRID ? this.bottom : 0,
    );
    const low = Math.max(inside - this.slack.absolute, 0),
      high = Math.min(around + this.slack.absolute, 1);
    return { ...this.at("absolute", i, j), low, high };
  }

  groupAuc(i, j) {
    const found = this.at("auc", i, j);
    return { ...found, ...within(found.value, (this.slack.chance * GRID) / (j - i), 0.5) };
  }
}

/** The scores of one model. */
class Model {
  constructor(data, rankWithin) {
    this.name = data.name;
    this.rankWithin = rankWithin;
    this.audited = data.audited; // the audited values as text, by metric
    this.limits = data.limits; // its confidence intervals, by metric
    this.alongCache = {};
    this.tooFew = data.tooFew; // positions of groups with too few of a label, by metric
    this.thresholds = data.thresholds;
    this.selected = unpack(data.selected);
    this.bins = data.bins;
    this.bars = data.bars && { ...data.bars, cuts: unpack(data.bars.cuts) };
    this.nPairs = data.nPairs;
    this.groups = data.groups.map((group) => new Group(group));
    this.radii = new Radii(this.groups, data.levels);
    this.pairs = data.pairs.map((pair) => new Pair(pair, this.radii));
    this.allPairs = this.groups.flatMap((_, k) => this.groups.slice(k + 1).map((__, d) => [k, k + 1 + d]));
    this.worst = data.worst && new WorstOfAll(data.worst, this.allPairs, this.groups, this.radii);
    this.hasLabels = this.groups.every((group) => group.hasLabels);
    this.pairwise = data.pairwise && {
      inter: unpack(data.pairwise.inter),
      intra: unpack(data.pairwise.intra),
    };
  }

  /** The pair of two groups, if the report contains it. */
  pairOf([k, l]) {
    return this.pairs.find(({ groups }) => groups[0] === k && groups[1] === l);
  }

  /** The gap of the given pair, or the largest of all pairs. */
  ofPairs(kind, i, j, pair) {
    if (pair) return pair[kind](i, j);
    if (this.worst) return this.worst[kind](i, j);
    return widestWithBand(this.pairs.map((one) => one[kind](i, j)));
  }

  /** The pairs that a metric compares: those without groups that have too few of a label. */
  compared(metric, pair) {
    const absent = this.tooFew[metric] ?? [];
    return (pair ? [pair.groups] : this.allPairs).filter(
      (groups) => !groups.some((k) => absent.includes(k)),
    );
  }

  /** Largest difference between proportions of groups, with its band if the slack is known. */
  ofShares(shares, pairs, scale, slackOf) {
    const gaps = pairs.map(([k, l]) => {
      const value = Math.abs(shares[k][scale] - shares[l][scale]);
      const slack = slackOf && slackOf(this.radii.interval([k, l]));
      return { value, pair: [k, l], ...(slackOf ? within(value, slack, 1) : {}) };
    });
    return slackOf ? widestWithBand(gaps) : widest(gaps);
  }

  /**
   * Whether the threshold's rank lies outside [i, j] in every group, for all labels compared: then the scores
   * inside have no influence, and a gap of 0 has no meaning.
   */
  isOutside(pairs, labels, i, j, t) {
    const ranks = [...new Set(pairs.flat())].flatMap((k) =>
      labels.map((label) => this.groups[k].rankAt(t, label, this.rankWithin)),
    );
    return ranks.every((rank) => rank < i / GRID - TOLERANCE || rank > j / GRID + TOLERANCE);
  }

  /** Every metric on both scales: {metric: {interval, absolute}}, each with value, pair and perhaps a band. */
  gaps(i, j, t, pair = null) {
    const width = (j - i) / GRID;
    const scales = (of) => ({ interval: of("interval"), absolute: of("absolute") });
    const unlessOutside = (pairs, labels, found) =>
      this.isOutside(pairs, labels, i, j, t)
        ? scales((scale) =>
            found[scale].value > TOLERANCE ? found[scale] : { ...found[scale], value: NaN, isOutside: true },
          )
        : found;
    const selected = this.groups.map((group) => group.selected(i, j, t));
    const compared = this.compared("demographic_parity", pair);
    const found = {
      statistical_parity: {
        interval: this.ofPairs("parity", i, j, pair),
        absolute: this.ofPairs("parityAbsolute", i, j, pair),
      },
      demographic_parity: unlessOutside(
        compared,
        [null],
        scales((scale) =>
          this.ofShares(selected, compared, scale, (slack) => (scale === "interval" ? slack / width : slack)),
        ),
      ),
      group_auc: { interval: this.ofPairs("groupAuc", i, j, pair), absolute: null },
    };
    if (!this.hasLabels) return found;
    const ofLabels = (metric, labels) => {
      const pairs = this.compared(metric, pair);
      if (pairs.length === 0) return scales(() => null);
      const shares = labels.map((label) =>
        this.groups.map((group) => group.selectedWith(label, i, j, t, this.rankWithin)),
      );
      const gaps = scales((scale) => widest(shares.map((of) => this.ofShares(of, pairs, scale))));
      return unlessOutside(pairs, labels, gaps);
    };
    found.equal_opportunity = ofLabels("equal_opportunity", [true]);
    found.equalized_odds = ofLabels("equalized_odds", [true, false]);
    const { inter, intra } = this.pairwise;
    const everywhere = (metric, valueOf) => {
      const gaps = this.compared(metric, pair).map(([k, l]) => ({ value: valueOf(k, l), pair: [k, l] }));
      return { interval: gaps.length === 0 ? null : widest(gaps), absolute: null };
    };
    const place = (k, l) => (k * (2 * this.groups.length - k - 1)) / 2 + l - k - 1; // index of a pair
    found.inter_group_pairwise = everywhere("inter_group_pairwise", (k, l) => inter[place(k, l)]);
    found.intra_group_pairwise = everywhere("intra_group_pairwise", (k, l) => Math.abs(intra[k] - intra[l]));
    return found;
  }

  /** Gaps of all intervals of one width, by first rank. */
  along(scale, pair, width) {
    const key = `${scale}/${pair ? pair.groups : "all"}/${width}`;
    if (this.alongCache.key !== key) {
      const kind = scale === "interval" ? "parity" : "parityAbsolute";
      const gaps = Array.from({ length: GRID - width + 1 }, (_, i) => this.ofPairs(kind, i, i + width, pair));
      this.alongCache = { key, gaps };
    }
    return this.alongCache.gaps;
  }

  /**
   * The largest gap of all intervals of the same width that do not overlap [i, j), or of the remaining ranks on a
   * side if these are fewer. See partialfair.metrics.elsewhere: it follows from the gaps of both sides.
   */
  elsewhere(scale, pair, i, j, minMembers) {
    const found = [
      [0, i],
      [j, GRID],
    ].flatMap(([from, to]) => {
      const width = Math.min(j - i, to - from);
      const isEnough = (k) => this.groups[k].effectiveInside(0, width) >= minMembers - 1e-9;
      const pairs = (pair ? [pair] : this.pairs).filter(({ groups }) => groups.every(isEnough));
      const everyGroup = this.groups.every((_, k) => isEnough(k)); // otherwise the largest gap of many pairs is unknown
      if (width === 0 || (this.worst && !pair ? !everyGroup : pairs.length === 0)) return [];
      const kind = scale === "interval" ? "parity" : "parityAbsolute";
      const gap =
        this.worst && !pair ? this.worst[kind](from, to) : widest(pairs.map((one) => one[kind](from, to)));
      const value = scale === "interval" ? Math.min((gap.value * (to - from)) / width, 1) : gap.value;
      return [{ value, pair: gap.pair, ...this.placeOf(gap.pair, scale, from, to, width) }];
    });
    return found.length > 0 ? widest(found) : null;
  }

  /** An interval of that width in [from, to) with the largest gap, on whole percents if possible. */
  placeOf(groups, scale, from, to, width) {
    const pair = this.pairOf(groups);
    const where =
      pair &&
      (scale === "interval"
        ? pair.whereParity(pair.parity(from, to), from, to)
        : pair.whereParityAbsolute(pair.parityAbsolute(from, to)));
    if (!where) return { i: from, j: to };
    const ranks = where.map((rank) => clip(GRID * rank, from, to));
    let [low, high] = ranks.sort((a, b) => a - b);
    let [first, last] = [from, to - width];
    if (scale === "absolute") {
      low = high = GRID * where.find((rank) => from / GRID <= rank + TOLERANCE && rank < to / GRID);
      [first, last] = [Math.max(first, low - width * (1 - 1e-9)), Math.min(last, low)];
    } else if (high - low >= width) [first, last] = [low, high - width];
    else [first, last] = [Math.max(first, high - width), Math.min(last, low)];
    const middle = clip((low + high - width) / 2, first, last);
    const percents = [Math.floor(middle), Math.ceil(middle)].filter(
      (start) => first - 1e-7 <= start && start <= last + 1e-7,
    );
    const [start = middle] = percents.sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle));
    return { i: start, j: start + width };
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
