package console

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// DefaultAddress is the address on which Serve listens.
const DefaultAddress = "127.0.0.1:7433"

// ServeOptions configure Serve. The zero ServeOptions follow the directory and serve on DefaultAddress.
type ServeOptions struct {
	// Address is the host and port to listen on. Default: DefaultAddress. Port 0 chooses a free one.
	Address string
	// AllowRemote permits an Address that other machines can reach. Anyone who can connect sees the page.
	AllowRemote bool
	// AllowWrite opens the database for writing, so that no other program may have it open. Serve
	// prints a new random token, without which the page changes nothing.
	AllowWrite bool
	// ShowKeys and Hosts are those of Options. A host name in Address is one of Hosts.
	ShowKeys bool
	Hosts    []string
	// Refresh is the interval at which a database of another process is read. Default: half a second.
	Refresh time.Duration
	// DB has options for opening the database, such as a comparer. Nil means the defaults.
	DB *db.Options
	// Out receives the address of the page and the token. Default: nothing is printed.
	Out io.Writer
	// Err receives what is wrong with the database, when its page is served all the same. Default: Out.
	Err io.Writer
}

// Serve opens the database in dir, which must exist, and serves its page until ctx is done. Unless
// AllowWrite is set it follows the database: it takes no lock and writes no byte, so another program
// may have it open. Where followers are not supported, no other program may have it open.
//
// A follower cannot distinguish the end of a damaged log from one that is being written. So if no program has the
// database open, Serve reads its logs before as Open does. If they are damaged, it reports that to Err and on the page,
// serves what can be read, and at the end returns the error, which is ErrCorruption.
//
// A page of a follower shows what the files say: levels, tables, filters, the age of what is shown. The
// lookups and writes of the other program are counted there, not here.
func Serve(ctx context.Context, dir string, o *ServeOptions) (err error) {
	if o == nil {
		o = &ServeOptions{}
	}
	out := o.Out
	if out == nil {
		out = io.Discard
	}
	found := o.examine(dir)
	store, err := o.open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.CombineErrors(err, store.Close()) }()
	listener, err := listen(ctx, o)
	if err != nil {
		return err
	}
	defer listener.Close() // again, after serve
	page := &Options{Title: dir, Hosts: append(slices.Clone(o.Hosts), nameIn(o.Address)...), ShowKeys: o.ShowKeys}
	if o.AllowWrite {
		page.WriteToken = rand.Text()
	}
	if _, err := fmt.Fprintf(out, "the console of %s is at http://%s/\n", dir, listener.Addr()); err != nil {
		return err
	}
	if page.WriteToken != "" {
		if _, err := fmt.Fprintf(out, "the token for changes is %s\n", page.WriteToken); err != nil {
			return err
		}
	}
	if found.damage != nil {
		to := o.Err
		if to == nil {
			to = out
		}
		if _, err := fmt.Fprintf(to, "the page shows what can be read, but the database is damaged: %v\n", found.damage); err != nil {
			return err
		}
	}
	h := newHandler(store, page)
	h.alone, h.found = true, found
	defer h.release()
	return errors.CombineErrors(serve(ctx, listener, h.routes()), found.damage)
}

// finding is what is known about a directory before it is followed.
type finding struct {
	idle   bool  // no program had the database open
	damage error // of its logs
}

// examine opens the directory as a reader for a moment, unless a program has it open.
func (o *ServeOptions) examine(dir string) (found finding) {
	if o.AllowWrite {
		return found // Open will say it
	}
	options := o.options()
	options.ReadOnly = true
	store, err := db.Open(dir, &options)
	switch {
	case errors.Is(err, db.ErrCorruption):
		return finding{idle: true, damage: err}
	case err != nil: // if it is not locked, the follower meets the same error
		return found
	}
	found.idle = true
	if losses := store.OpenReport().Losses; len(losses) > 0 {
		found.damage = errors.Wrap(db.ErrCorruption, strings.Join(losses, "; "))
	}
	if err := store.Close(); err != nil && found.damage == nil {
		found.damage = err
	}
	return found
}

// options returns the options for opening an existing database.
func (o *ServeOptions) options() db.Options {
	options := db.Options{}
	if o.DB != nil {
		options = *o.DB
	}
	options.ErrorIfMissing = true
	return options
}

// open opens the database as the options say.
func (o *ServeOptions) open(dir string) (*db.DB, error) {
	options := o.options()
	if o.AllowWrite {
		return db.Open(dir, &options)
	}
	options.FollowInterval = o.Refresh
	if o.Refresh <= 0 {
		options.FollowInterval = time.Second / 2
	}
	if runtime.GOOS != "windows" { // where followers are not supported
		return db.OpenFollower(dir, &options)
	}
	options.ReadOnly, options.FollowInterval = true, 0
	return db.Open(dir, &options)
}

// nameIn returns the host of an address if it is a name.
func nameIn(address string) []string {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" || net.ParseIP(host) != nil {
		return nil
	}
	return []string{host}
}

// listen listens on the address, if it is a loopback address or others are allowed.
func listen(ctx context.Context, o *ServeOptions) (net.Listener, error) {
	address := o.Address
	if address == "" {
		address = DefaultAddress
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, errors.Wrapf(err, "sievedb: the console cannot listen on %s; choose another address or port", address)
	}
	if at, ok := listener.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() && !o.AllowRemote {
		return nil, errors.CombineErrors(
			errors.Newf("sievedb: other machines could reach %s; use a loopback address such as 127.0.0.1, or allow remote access", address),
			listener.Close())
	}
	return listener, nil
}

// serve serves until ctx is done. Requests that are running then have a second to end.
func serve(ctx context.Context, listener net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	base.Go(func() { ended <- server.Serve(listener) })
	select {
	case err := <-ended:
		return errors.Wrap(err, "sievedb: the console cannot serve")
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return errors.CombineErrors(server.Close(), nil)
	}
	return nil
}
