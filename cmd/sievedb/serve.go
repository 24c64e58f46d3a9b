package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/console"
	"github.com/sievedb/sievedb/db"
)

// serveFlags are the flags of serve.
type serveFlags struct{ o console.ServeOptions }

func (f *serveFlags) add(set *pflag.FlagSet) {
	set.StringVar(&f.o.Address, "address", console.DefaultAddress, "the loopback address and port; port 0 chooses a free one")
	set.Var((*remoteFlag)(&f.o), "allow-remote",
		"permit an address that other machines reach; hosts are names to serve the page under")
	set.Lookup("allow-remote").NoOptDefVal = "true"
	set.BoolVar(&f.o.AllowWrite, "allow-write", false, "open for writing, and let the page change the database with a token that is printed")
	set.BoolVar(&f.o.ShowKeys, "show-keys", false, "let the page show keys and values")
}

// remoteFlag is --allow-remote, which may have host names.
type remoteFlag console.ServeOptions

func (f *remoteFlag) String() string {
	switch {
	case !f.AllowRemote:
		return "false"
	case len(f.Hosts) == 0:
		return "true"
	}
	return strings.Join(f.Hosts, ",")
}

func (f *remoteFlag) Type() string { return "hosts" }

// Set adds host names. Without them the flag has the words of a boolean.
func (f *remoteFlag) Set(text string) error {
	if on, err := strconv.ParseBool(text); err == nil {
		f.AllowRemote = on
		return nil
	}
	for name := range strings.SplitSeq(text, ",") {
		if name == "" || strings.ContainsAny(name, ":/@ \t") {
			return fmt.Errorf("%q is no host name; want names without scheme and port, such as db.example.com", name)
		}
		f.Hosts = append(f.Hosts, name)
	}
	f.AllowRemote = true
	return nil
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
	f.o.Out, f.o.Err = flushingWriter{a}, noticeWriter{a}
	err := console.Serve(a.ctx, args[0], &f.o)
	switch {
	case errors.Is(err, db.ErrCorruption) && a.ctx.Err() != nil: // the page was served, and noticeWriter has said it
		return ended(exitFaults)
	case errors.Is(err, db.ErrCorruption):
		return &failure{exitFaults, err}
	case errors.Is(err, context.Canceled):
		return nil
	}
	if name := customComparer(args[0]); err != nil && name != "" {
		return readableOnly(args[0], name)
	}
	return namingCreate(args[0], err)
}

// noticeWriter prints to standard error.
type noticeWriter struct{ a *app }

func (w noticeWriter) Write(text []byte) (int, error) {
	w.a.say("%s", strings.TrimSuffix(string(text), "\n"))
	return len(text), nil
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
