// Package explain describes the work of a single lookup. Table looks up a key in a table as
// lookups do, and records and times each part. Step and Sum write the result as text. The store
// chooses the tables and adds up the steps.
package explain
