// Package version has the tables of a database at one moment: which are on which level, which of them may have a key,
// and how long their files must stay. Package manifest records versions, and package pick chooses compactions of one.
//
// A Version never changes. Apply makes the next one from it and a Change, which a flush or a compaction describes.
//
// # References
//
// Each Version counts its readers. Its tables are in buckets that it shares with other versions (roster):
// each bucket counts its versions, and each FileMeta its buckets. When a version's count reaches zero, its
// buckets lose a reference, and the files of a bucket without references lose one. A file without
// references is obsolete, and is passed to Owner.Obsolete, who removes it.
//
// # Many tables
//
// A change of a database of very many tables costs about what it changes. A version shares the levels that
// it does not change, keeps sums, and checks what is new (Version.Apply). The choice of a compaction
// uses figures that versions hand on (OverlapRatios), and lists of the tables that may need one (noted).
package version
