// Command sievedb inspects and changes a database directory of SieveDB, LevelDB or
// goleveldb.
//
//	go run ./cmd/sievedb help
//
// Commands that only read open the directory read-only and change nothing.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	// A second Ctrl-C ends the program immediately, as a crash would.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
