// Command peerbench measures SieveDB and its peers with the same workloads, each
// engine in a process of its own, in turns. docs/performance.md says what is
// compared and what is fair in it.
//
//	make peers PEERS_FLAGS='--num=1000000 --rounds=3'
//
// The way through the source: run.go leads from the command line to the reports,
// config.go has the flags, workloads.go the list of workloads. process.go starts
// a process for each measurement, child.go is what that does, and phase.go what
// it measures by. report.go, tables.go and plot.go show the results. scale.go,
// scaletables.go and scaleplot.go are the same for --scale, with opens.go.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	if os.Getenv(childMark) != "" {
		os.Exit(childMain(os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
