/* Who enters and leaves the interval [i, j) from one model to another: see partialfair.report.changes. */

/** Signed numbers, small ones in one byte; a zero is followed by the number of further zeros. */
const unpackNumbers = (text) => {
  const bytes = unpack(text, Uint8Array),
    numbers = [];
  let place = 0;
  const next = () => {
    let value = 0,
      unit = 1;
    for (; bytes[place] > 127; place += 1, unit *= 128) value += (bytes[place] - 128) * unit;
    place += 1;
    return value + bytes[place - 1] * unit;
  };
  while (place < bytes.length) {
    const value = next();
    numbers.push(value % 2 === 1 ? -(value + 1) / 2 : value / 2);
    if (value === 0) for (let more = next(); more > 0; more -= 1) numbers.push(0);
  }
  return numbers;
};

/** The weight that stays on every interval of whole percents, at index i (GRID + 1) + j. */
const staysOf = (text, step) => {
  const cells = unpackNumbers(text),
    stays = new Float64Array((GRID + 1) ** 2),
    side = GRID + 1;
  for (let width = 1; width <= GRID; width += 1) {
    for (let i = 0; i + width <= GRID; i += 1) {
      const at = i * side + i + width;
      const cell = cells[i * GRID - (i * (i - 1)) / 2 + width - 1]; // index of (i, j − 1) in the upper triangle
      stays[at] = cell + stays[at + side] + stays[at - 1] - stays[at + side - 1];
    }
  }
  return stays.map((steps) => steps * step);
};

/** Changes of large groups between pairs of models. */
class Changes {
  constructor({ groups, tables, leftOut, most }) {
    Object.assign(this, { groups, tables, leftOut, most });
    this.unpacked = new Map();
  }

  /** Weight of a group that stays on [i, j) between two models; null if the report does not contain it. */
  stays(models, k, i, j) {
    const [first, second] = models[0] < models[1] ? models : [models[1], models[0]]; // symmetric
    const table = this.tables.find(({ models: [a, b] }) => a === first && b === second);
    if (!table || !(k in table.stays)) return null;
    const key = `${first}/${second}/${k}`;
    if (!this.unpacked.has(key)) this.unpacked.set(key, staysOf(table.stays[k], this.groups[k].step));
    return this.unpacked.get(key)[i * (GRID + 1) + j];
  }

  /** For the named groups, or for all: the weight inside the interval, and how much of it stays and changes. */
  lines(models, i, j, names) {
    return this.groups.flatMap(({ name, total }, k) => {
      const stays = this.stays(models, k, i, j);
      if (stays === null || (names && !names.includes(name))) return [];
      const inside = (total * (j - i)) / GRID;
      return [{ name, inside, stays, changes: Math.max(inside - stays, 0) }];
    });
  }

  /** The explanation of the table, and of the groups that are left out. */
  text(models) {
    const few = `at most ${this.most} members: changes of single rows could be inferred`;
    const noRoom = this.groups.filter((_, k) => this.stays(models, k, 0, GRID) === null).length;
    return [
      "Under both models the interval contains the same number of a group, so that equally many enter and leave;",
      "weights are counted if there are any. For this table the file contains how many members of a group have",
      "which ranks, in whole percents, under the two models.",
      ...(this.leftOut > 0 ? [`Left out: ${this.leftOut} of the groups, with ${few}.`] : []),
      ...(noRoom > 0 ? [`The file is too small for the ${noRoom} smallest groups.`] : []),
    ].join(" ");
  }
}

const drawChanges = (table, lines) => {
  table.hidden = lines.length === 0;
  table.tBodies[0].replaceChildren(
    ...lines.map(({ name, inside, stays, changes }) => {
      const row = document.createElement("tr");
      row.appendChild(element("th", name)).scope = "row";
      for (const [kind, count] of Object.entries({ inside, stays, enters: changes, leaves: changes }))
        row.appendChild(element("td", membersText(count), "number")).dataset[kind] = String(count);
      row.appendChild(element("td", percent(inside > 0 ? changes / inside : 0, 1), "number"));
      return row;
    }),
  );
};
