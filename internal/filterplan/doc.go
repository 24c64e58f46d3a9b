// Package filterplan decides how many bits a key the filters of new tables get: how
// filter memory is divided over the levels of a store.
//
// Without a budget the default filter has more bits on the upper levels than on the last
// one. Under a budget (Options.Budget, or Options.Filters.MaxWastedReads the other way round)
// each new table's filter has the bits a key that its level deserves when the table is
// begun. Levels change by then, and tables keep their filters until they are rewritten:
// on the last level, which has most of the keys, each time the level above has gone
// through all of it, so about ten times while it grows tenfold. So the plan is for the
// size that the last level will have half-way to there, and a part of the budget is held
// in reserve. If the existing filters are above their budget all the same, new tables get
// fewer bits; but gently, for a table that is starved costs more reads than others that
// are rich save.
//
// The division itself is filter.Curve's. A Planner may be used by any goroutine.
package filterplan
