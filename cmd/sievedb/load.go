package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/sievedb/sievedb/db"
)

// load reads lines as scan prints them, a key, a tab and a value, in the order of the
// keys, and loads all of them or none.
func load(c *call) (int, error) {
	return c.withOptions(&db.Options{}, func(store *db.DB) (int, error) {
		l, err := store.NewLoader()
		if err != nil {
			return exitFailed, err
		}
		n, err := c.loadLines(l)
		if err == nil {
			err = l.Commit()
		}
		_ = l.Close() // it gives up what is not committed
		if err != nil {
			return exitFailed, err
		}
		_, err = fmt.Fprintf(c.stdout, "%d entries loaded\n", n)
		return codeOf(err), err
	})
}

// input returns the standard input; reading from it ends when the call is interrupted,
// also where a terminal or a pipe has nothing to read.
func (c *call) input() io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, c.stdin)
		_ = w.CloseWithError(err)
	}()
	context.AfterFunc(c.ctx, func() { _ = w.CloseWithError(c.ctx.Err()) })
	return r
}

// loadLines returns how many lines there were.
func (c *call) loadLines(l *db.Loader) (n int, err error) {
	stdin := c.input()
	defer stdin.Close()
	in := bufio.NewReaderSize(stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) == 0 && err == io.EOF {
			return n, nil
		}
		if err != nil && err != io.EOF {
			return n, err
		}
		n++
		key, value, err := c.parseLine(bytes.TrimSuffix(line, []byte("\n")))
		if err == nil && n%1024 == 0 {
			err = c.ctx.Err()
		}
		if err == nil {
			err = l.Put(key, value)
		}
		if err != nil {
			return n, fmt.Errorf("sievedb: line %d: %w", n, err)
		}
	}
}

var errLine = errors.New("want a key, a tab and a value, each as it is or quoted as in Go, or both in hexadecimal with -hex")

// parseLine takes a line apart, without its end.
func (c *call) parseLine(line []byte) (key, value []byte, err error) {
	first, second, ok := bytes.Cut(line, []byte("\t")) // a tab within a key or value is quoted
	if !ok {
		return nil, nil, errLine
	}
	if key, err = c.untext(first); err == nil {
		value, err = c.untext(second)
	}
	return key, value, err
}

// untext is the inverse of text; other bytes that are no quoted string stand for themselves.
func (c *call) untext(b []byte) ([]byte, error) {
	if c.flags.hex {
		out := make([]byte, hex.DecodedLen(len(b)))
		if _, err := hex.Decode(out, b); err != nil {
			return nil, errLine
		}
		return out, nil
	}
	if len(b) == 0 || b[0] != '"' {
		return b, nil
	}
	s, err := strconv.Unquote(string(b))
	if err != nil {
		return nil, errLine
	}
	return []byte(s), nil
}
