// Package dump decodes the files of a database for people and tools: every field of tables, logs, MANIFESTs, CURRENT
// and CLOSED, in the order of the file, with damaged parts marked. It only reads. Nothing in a file is trusted, and
// damage does not end a dump: it continues with the next part that can be read.
//
// File calls a function with an Item for each part. The Item and its slices are valid during
// the call. Memory is bounded by the largest block or record, and by the index of a table.
//
// History reads all entries that a directory has, with their sequence numbers and in the order of
// its files. It needs no comparer.
package dump
