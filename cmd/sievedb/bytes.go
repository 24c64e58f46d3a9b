package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
)

// maxStdin is how much of standard input one value can be.
const maxStdin = 512 << 20

// value reads the value of argument i, or all of standard input if that is "-". Text is never quoted there: it may be a
// file.
func (a *app) value(args []string, i int) ([]byte, error) {
	enc := a.out.format.value
	if args[i] != "-" {
		b, err := enc.decode([]byte(args[i]))
		if err != nil {
			return nil, misuse("argument %d: %w", i+1, err)
		}
		return b, nil
	}
	in := a.input()
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, maxStdin+1))
	if err == nil && len(b) > maxStdin {
		err = fmt.Errorf("sievedb: standard input is longer than a value can be, %d bytes", maxStdin)
	}
	if err != nil || enc == encText || enc == encRaw {
		return b, err
	}
	out, err := enc.decode(bytes.TrimSpace(b))
	if err != nil {
		return nil, misuse("standard input: %w", err)
	}
	return out, nil
}

// keys are the keys of arguments from the given one on; "-" stands for the lines of standard input.
func (a *app) keys(args []string, from int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for i := from; i < len(args); i++ {
			if args[i] == "-" {
				if !a.lineKeys(yield) {
					return
				}
			} else if key, err := a.keyArg(args, i); !yield(key, err) || err != nil {
				return
			}
		}
	}
}

// lineKeys yields the keys in the lines of standard input. It returns false when there are to be no more.
func (a *app) lineKeys(yield func([]byte, error) bool) bool {
	for line, err := range a.lines() {
		key := line.text
		if err == nil {
			if key, err = a.key(line.text); err != nil {
				err = fmt.Errorf("sievedb: line %d: %w", line.number, err)
			}
		}
		if !yield(key, err) || err != nil {
			return false
		}
	}
	return true
}

// line is a line of standard input without its end. The text is valid until the next one.
type line struct {
	number int
	text   []byte
}

// lines returns the lines of standard input.
func (a *app) lines() iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		in := a.input()
		defer in.Close()
		eachLine(in, yield)
	}
}

// maxLine is how long a line can be. A file without line ends, such as a device, would fill the memory.
const maxLine = 1 << 30

// readLine returns a line with its end, which the last one of a file may lack. The error is io.EOF at the
// end of the file.
func readLine(r *bufio.Reader, limit int) (text []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		text = append(text, part...)
		if len(text) > limit {
			return nil, fmt.Errorf("it is longer than %d bytes; entries of that size need the binary form of 'export'", limit)
		}
		if err != bufio.ErrBufferFull {
			return text, err
		}
	}
}

// interruptible is a reader whose Read fails when the verb is interrupted.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (i interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.r.Read(p)
}

func eachLine(r io.Reader, yield func(line, error) bool) {
	in := bufio.NewReaderSize(r, 1<<20)
	for n := 1; ; n++ {
		text, err := readLine(in, maxLine)
		if len(text) == 0 && err == io.EOF {
			return
		}
		if err != nil && err != io.EOF {
			yield(line{number: n}, fmt.Errorf("sievedb: line %d: %w", n, err))
			return
		}
		if !yield(line{n, bytes.TrimSuffix(text, []byte("\n"))}, nil) {
			return
		}
	}
}

// input returns standard input. Reading from it ends when the verb is interrupted, also if a
// terminal or a pipe has nothing to read.
func (a *app) input() io.ReadCloser { return a.inputOf(a.stdin) }

// inputOf is input for another source.
func (a *app) inputOf(in io.Reader) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, in)
		_ = w.CloseWithError(err)
	}()
	context.AfterFunc(a.ctx, func() { _ = w.CloseWithError(a.ctx.Err()) })
	return r
}
