// Command sieved is a replicated and sharded server that speaks Redis's protocol.
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program immediately, as a crash would.
	context.AfterFunc(ctx, stop)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "sieved:", err)
		os.Exit(1)
	}
	if err != nil {
		os.Exit(130)
	}
}
