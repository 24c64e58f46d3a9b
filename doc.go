// Package sievedb is the front page of SieveDB, an embedded, ordered key-value store for
// Go. It has the few types that several packages share; the store is package db.
//
// SieveDB is an LSM tree on LevelDB's file format with a filter in front of every table, so that looking up a key that
// is not stored nearly always reads nothing from disk. A LevelDB or goleveldb directory opens in place, and those
// programs can open it again. It is pure Go, without cgo. What was written with sync survives a power cut, and every
// block read from disk is checked.
//
// # Install
//
//	go get github.com/sievedb/sievedb/db
//
// # Example
//
//	store, err := db.Open(dir, nil) // creates the database if it does not exist
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer store.Close()
//
//	// By default, a write is durable when it returns.
//	if err := store.Put([]byte("spider"), []byte("8 legs"), nil); err != nil {
//		log.Fatal(err)
//	}
//	value, err := store.Get([]byte("spider"))
//
// # Packages
//
//   - [github.com/sievedb/sievedb/db] is the store, and all that most programs need.
//   - [github.com/sievedb/sievedb/backup] stores incremental backups of databases and restores them.
//   - [github.com/sievedb/sievedb/filter] has the filter policies to choose from,
//     [github.com/sievedb/sievedb/filter/rangefilter] those for ranges, and
//     [github.com/sievedb/sievedb/filter/standalone] filters for use without a store.
//   - [github.com/sievedb/sievedb/metrics] writes the figures of a store for Prometheus and expvar.
//   - [github.com/sievedb/sievedb/console] is a web page about a store.
//   - [github.com/sievedb/sievedb/report] has the types of metrics and reports, and
//     [github.com/sievedb/sievedb/report/columns] fits tables of text to a terminal.
//   - [github.com/sievedb/sievedb/sstable] reads and writes tables, the sorted files on disk.
//   - [github.com/sievedb/sievedb/memtable] is the sorted run in memory.
//   - [github.com/sievedb/sievedb/vfs] is the file system that the store uses: the operating
//     system's, one in memory, or yours.
//     [github.com/sievedb/sievedb/vfs/outfile] makes the files of commands.
//   - [github.com/sievedb/sievedb/util] has integer codings, hashes and checksums of the format.
//
// # Modules
//
// These are modules of their own, so what they require is not required by yours.
//
//   - [github.com/sievedb/sievedb/backup/blob] keeps backups in buckets of S3 and others.
//   - [github.com/sievedb/sievedb/metrics/prometheus] is a collector for client_golang.
//   - [github.com/sievedb/sievedb/compat/goleveldb] has goleveldb's packages on this store, through a replace line.
//   - [github.com/sievedb/sievedb/cluster] is a replicated server with Redis's protocol.
//
// # Commands
//
// Each command is a module of its own, so its libraries are not yours.
//
//   - [github.com/sievedb/sievedb/cmd/sievedb] looks into a database directory, checks it and
//     repairs it.
//   - [github.com/sievedb/sievedb/cmd/dbbench] measures workloads and the disk reads that
//     filters save.
//   - [github.com/sievedb/sievedb/cmd/peerbench] compares SieveDB with other engines.
package sievedb
