// Command dbbench measures SieveDB with the workloads and flags of LevelDB's
// db_bench, and shows the disk reads that its filters save. README.md beside
// this file documents flags, report and JSON.
//
// Without a flag it loads the word list that ships with the project and prints
// the report "disk reads saved":
//
//	go run ./cmd/dbbench
//
// It is a module of its own, so that users of the store do not get the
// libraries that it draws on.
//
// The way through the source: run.go leads from the command line to the end.
// config.go has the flags, workload.go the list of workloads, session.go the
// database they share and thread.go the loop that measures them. The report is
// filterreads.go (what is looked up), tablereads.go (how reads are counted) and
// report.go (how it looks). The comparison of filters is sweep.go: sweeprates.go and
// sweepstore.go measure, sweeptext.go says what came of it, sweepcharts.go draws it with
// chart.go, and sweephtml.go makes the page.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
)

// gcPercent is how much garbage, against what is alive, the collector lets
// gather before it runs. What a store holds is mostly one long-lived cache, for
// which Go's default of 100 means twice its size in memory; 40 costs little time
// here, since caches and memtables hold no pointers to follow.
const gcPercent = 40

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	// The second Ctrl-C ends the program where it stands.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
