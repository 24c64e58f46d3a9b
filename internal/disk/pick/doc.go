// Package pick chooses the compactions of a version, as pure functions of it, and the levels of new tables.
//
// What is most urgent comes first: tables whose values have all expired, garbage of value tables, levels larger than
// their targets (Picker.Shape), tables that a merge would shrink, and many small tables. Package compact runs what is
// chosen.
package pick
