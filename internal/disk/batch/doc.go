// Package batch fills, encodes, decodes and checks batches of writes, the payload of a log record
// (LevelDB's db/write_batch.cc):
//
//	fixed64 sequence of the first entry | fixed32 count | entries
//	entry: kind (1 put, 0 delete) | length-prefixed key | length-prefixed value (put only)
//
// It also has the preamble of our logs, which is an empty batch.
package batch
