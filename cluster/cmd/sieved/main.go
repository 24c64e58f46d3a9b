// Command sieved is a linearizable, replicated and sharded key-value server for the string commands of Redis Cluster's
// clients.
//
//	go install github.com/sievedb/sievedb/cluster/cmd/sieved@latest
//	sieved demo
//
// sieved demo starts three nodes on this machine, kills one of them, and checks that nothing
// acknowledged is lost. docs/cluster.md says how to run a real cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/sievedb/sievedb/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program immediately, as a crash would.
	context.AfterFunc(ctx, stop)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "sieved:", err)
	}
	os.Exit(exitCode(err))
}

// exitCode is what the program exits with. docs/cluster.md names those after which a service manager must not start the
// node again.
func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, cluster.ErrRemoved):
		return 3
	case errors.Is(err, cluster.ErrNoNode), errors.Is(err, cluster.ErrForked), errors.Is(err, cluster.ErrRolledBack):
		return 4
	case errors.Is(err, context.Canceled):
		return 130
	}
	return 1
}
