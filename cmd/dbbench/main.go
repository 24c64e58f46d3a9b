// Command dbbench measures SieveDB with the workloads and flags of LevelDB's db_bench, and shows
// the disk reads that its filters save. README.md in this folder documents flags, report and JSON.
//
// Without flags it loads the word list that ships with the project and prints the report "disk reads saved":
//
//	go run ./cmd/dbbench
//
// It is a separate module, so users of the store do not get the libraries that it needs.
//
// Reading the source: run.go has the run from the command line to the end, config.go the flags,
// workload.go the list of workloads, session.go the database that they share, and thread.go the
// loop that measures them. The report is in filterreads.go (the lookups), tablereads.go (how reads are
// counted), report.go (its text) and readschart.go (its chart).
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
)

// gcPercent is the value of GOGC unless the environment sets it. Most of a store's memory is one
// long-lived cache, of which Go's default of 100 uses twice the size. 40 costs little time, since
// caches and memtables have no pointers to follow.
const gcPercent = 40

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	// A second Ctrl-C kills the program.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
