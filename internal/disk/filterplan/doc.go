// Package filterplan decides how many bits per key the filters of new tables have, that is, how
// filter memory is divided among the levels of a store.
//
// Without a budget, the default filter has more bits on the upper levels than on the last one. With a budget
// (Options.Budget, or Options.Filters.MaxWastedReads, which bounds reads instead of bytes), the filter of each new
// table gets the best number of bits for its level at that time. Levels change later, and tables keep their filters
// until they are rewritten. On the last level, which has most of the keys, that happens each time the level above has
// been merged into all of it, about ten times while it grows tenfold. So the plan assumes the size of the last level
// half-way to its next rewrite, and keeps a part of the budget in reserve. If the existing filters still exceed that,
// new tables get fewer bits. The reduction is gradual, because a table with too few bits costs more reads than tables
// with many bits save. No table gets more than is left of the budget. A compaction of everything that a caller asked
// for plans for the tables as they are, with nine tenths of the budget.
//
// filter.Curve computes the division. A Planner is safe for concurrent use.
package filterplan
