// Prefers endpoints with small values in one column: 1 / (1 + value), and never below a floor. Below 0 is 0.

import { resolve } from 'sluicegate:policy/columns@0.1.0';

let column;
let floor;

export const plugin = {
  describe() {
    return {
      name: 'least-requests',
      version: '1.0.0',
      summary: 'prefers small values of a column, in JavaScript',
      defaultWeight: 1,
      configSchema: '',
    };
  },

  // What is thrown is the error of the result.
  configure(config) {
    const { column: name = 'load.requests', floor: least = 0, ...unknown } = JSON.parse(config);
    for (const key of Object.keys(unknown)) throw `there is no key '${key}'; column and floor exist`;
    column = resolve(name);
    floor = least;
  },
};

export const scorer = {
  score(request, endpoints) {
    return endpoints.column(column, 0).map((value) => Math.max(floor, 1 / (1 + Math.max(0, value))));
  },
};
