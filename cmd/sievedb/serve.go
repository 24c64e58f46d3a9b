package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/console"
	"github.com/sievedb/sievedb/db"
)

// serveFlags are the flags of serve.
type serveFlags struct{ o console.ServeOptions }

func (f *serveFlags) add(set *pflag.FlagSet) {
	set.StringVar(&f.o.Address, "address", console.DefaultAddress, "the loopback address and port of the page; port 0 chooses a free one")
	set.BoolVar(&f.o.AllowRemote, "allow-remote", false, "permit an address that other machines can reach; anyone who can connect sees the page")
	set.BoolVar(&f.o.AllowWrite, "allow-write", false, "open the database for writing, and let the page change it with a token that is printed")
	set.BoolVar(&f.o.ShowKeys, "show-keys", false, "let the page show keys and values")
}

// serve runs until the command is interrupted, which is no failure.
func (a *app) serve(args []string, f *serveFlags) error {
	a.dir = args[0]
	f.o.DB = &db.Options{}
	if err := a.addExpiry(f.o.DB); err != nil {
		return err
	}
	f.o.DB.ReadOnly = !f.o.AllowWrite
	if err := a.asRecorded(args[0], f.o.DB); err != nil {
		return err
	}
	f.o.DB.ReadOnly = false
	if f.o.AllowWrite && keepsUnrecorded(args[0]) {
		f.o.DB.Changes = keptChanges(args[0])
	}
	f.o.Out = flushingWriter{a}
	err := console.Serve(a.ctx, args[0], &f.o)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	if name := customComparer(args[0]); err != nil && name != "" {
		return readableOnly(args[0], name)
	}
	return namingCreate(args[0], err)
}

// flushingWriter prints at once: the page is up until the command ends.
type flushingWriter struct{ a *app }

func (w flushingWriter) Write(text []byte) (int, error) {
	n, err := w.a.out.w.Write(text)
	if err == nil {
		err = w.a.out.w.Flush()
	}
	return n, err
}
