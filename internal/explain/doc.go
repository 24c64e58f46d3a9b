// Package explain says what one lookup did: Table looks a key up in a table as lookups do
// and notes and times each part, and Step and Sum write the result for people. The store
// chooses the tables and adds the steps up.
package explain
