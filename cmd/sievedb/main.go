// Command sievedb looks into and works on a database directory: SieveDB's,
// LevelDB's or goleveldb's.
//
//	go run ./cmd/sievedb help
//
// Commands that only look open the directory read-only and change nothing.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	// The second Ctrl-C ends the program where it stands, as a crash would.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
