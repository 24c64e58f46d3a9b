// Command sievedb inspects and changes a database directory of SieveDB, LevelDB or goleveldb.
//
//	go install github.com/sievedb/sievedb/cmd/sievedb@latest
//	sievedb help
//
// Verbs that only read open the directory read-only and change nothing. If another process has
// the database open, they follow that process.
//
// The source has one file for each group of verbs. root.go has the frame: flags, help, exit
// codes. open.go opens databases for all verbs, and output.go prints for all of them.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), endSignals...)
	// A second Ctrl-C ends the program immediately, as a crash would.
	context.AfterFunc(ctx, stop)
	keepBrokenPipes()
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
