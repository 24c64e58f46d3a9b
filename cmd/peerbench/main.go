// Command peerbench measures SieveDB and its peers with the same workloads. The engines take turns,
// each in a separate process. docs/performance.md describes what is compared and what is fair.
//
//	make peers PEERS_FLAGS='--num=1000000 --rounds=3'
//
// Reading the source: run.go has the run from the command line to the reports, config.go the flags, and workloads.go
// the list of workloads. process.go starts a process for each measurement, child.go is that process, and phase.go
// measures. report.go and tables.go write tables, and charts.go draws charts. from.go reads stored results, merge.go
// joins those of several runs, and medians.go compares those of several machines. scale.go, scaletables.go and opens.go
// are for --scale; rates.go and large.go are for its parts overwrite and rates.
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
