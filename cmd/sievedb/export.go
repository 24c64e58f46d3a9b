package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs/outfile"
)

type exportFlags struct {
	rangeFlags
	format string
	resume bool
}

func (e *exportFlags) add(f *pflag.FlagSet) {
	e.rangeFlags.add(f)
	f.StringVar(&e.format, "format", formJSON, "jsonl or binary")
	f.BoolVar(&e.resume, "resume", false, "continue an export to FILE that was interrupted")
}

// partialSuffix marks an export that is not complete. A file without it always is.
const partialSuffix = ".partial"

// exported is the result of an export.
type exported struct {
	File     string
	Entries  uint64
	Sequence uint64
}

// export writes entries to a file or standard output. A file is written under another name until it is complete.
func (a *app) export(args []string, flags *exportFlags) error {
	if flags.format != formJSON && flags.format != formBinary {
		return misuse("--format %q; want %s or %s", flags.format, formJSON, formBinary)
	}
	bounds, err := flags.bounds(a, nil)
	if err != nil {
		return err
	}
	if len(args) == 1 || args[1] == "-" {
		if flags.resume {
			return misuse("--resume needs a FILE to continue")
		}
		return a.readKeys(args[0], func(store *db.DB) error {
			_, err := a.exportTo(store, a.out.w, flags.format, bounds, 0)
			return err
		})
	}
	return a.readKeys(args[0], func(store *db.DB) error { return a.exportFile(store, args[1], flags, bounds) })
}

func (a *app) exportFile(store *db.DB, path string, flags *exportFlags, bounds *db.IterOptions) (err error) {
	if info, err := os.Lstat(path); err == nil {
		if !info.Mode().IsRegular() {
			return fmt.Errorf("sievedb: %s is not a plain file; choose another name, or - for standard output", path)
		}
		return fmt.Errorf("sievedb: %s exists; remove it, or choose another name", path)
	}
	partial := path + partialSuffix
	f, err := openPartial(partial, flags.resume)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("sievedb: %s is left from an interrupted export; --resume continues it, or remove it", partial)
	case errors.Is(err, fs.ErrNotExist) && flags.resume:
		return fmt.Errorf("sievedb: there is no %s to continue: %w", partial, err)
	case err != nil && flags.resume:
		return fmt.Errorf("sievedb: %s cannot be continued: %w; remove it, or choose another name", partial, err)
	case err != nil:
		return err
	}
	defer f.Close()
	done := uint64(0)
	if flags.resume {
		if done, err = a.resumeExport(store, f, flags.format, bounds); err != nil {
			return fmt.Errorf("sievedb: %s cannot be continued: %w", partial, err)
		}
	}
	w := bufio.NewWriterSize(f, 1<<20)
	count, err := a.exportTo(store, w, flags.format, bounds, done)
	if err != nil {
		// What is whole stays for --resume.
		_ = w.Flush()
		a.say("%s has what was exported; --resume continues it", partial) // also after a full disk
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(partial, path); err != nil {
		return err
	}
	result := exported{path, count, store.Metrics().LastSequence}
	return a.out.result(result, func() { a.out.prose("%s exported to %s", a.out.count(result.Entries, "entry"), path) })
}

// openPartial makes the file of an unfinished export, or opens that of an interrupted one: another user may have put it
// there, to read the values, or to have them written through a link.
func openPartial(name string, resume bool) (*os.File, error) {
	if resume {
		return outfile.OpenOwn(name, os.O_RDWR)
	}
	return outfile.New(name, 0o600) // the values may be secret
}

// exportTo writes the entries within bounds. done is the number of entries that the file has already.
func (a *app) exportTo(store *db.DB, w *bufio.Writer, format string, bounds *db.IterOptions, done uint64) (uint64, error) {
	var out entryWriter = &jsonLines{w, a.out.format}
	if format == formBinary {
		frames := &frames{w: w, count: done}
		if done == 0 {
			if err := frames.header(store.Metrics().LastSequence); err != nil {
				return 0, err
			}
		}
		out = frames
	}
	p := a.progressOver("exporting", "entry", store, bounds)
	defer p.close()
	p.done = done
	err := a.each(store, bounds, false, func(key, value []byte) (bool, error) {
		done++
		p.entry(key, value)
		return true, out.add(a.bare(key), value)
	})
	if err != nil {
		return done, err
	}
	return done, out.finish()
}

// resumeExport finds the last whole entry of an interrupted export, cuts the file after it, and moves the
// lower bound after its key. It returns how many entries the file has.
func (a *app) resumeExport(store *db.DB, f *os.File, format string, bounds *db.IterOptions) (count uint64, err error) {
	r := bufio.NewReaderSize(f, 1<<20)
	if found := detectForm(r); found != format {
		if found == formLines { // it has not even a beginning
			return 0, errors.Join(f.Truncate(0), rewind(f, 0))
		}
		return 0, fmt.Errorf("it is in the format %s; use --format %s", found, found)
	}
	in, err := a.groups(r, format, 0, 0)
	if err != nil {
		return 0, err
	}
	if lines, ok := in.(*lineReader); ok {
		lines.whole = true
	}
	var last []byte
	end := int64(0)
	for {
		g, err := in.next()
		if len(g.entries) > 0 && (err == nil || format == formJSON) {
			count += uint64(len(g.entries))
			last, end = g.entries[len(g.entries)-1].Key, g.end
		}
		if err != nil {
			break // the cut end, or damage: what follows is written again
		}
	}
	if frames, ok := in.(*frameReader); ok && frames.seq != store.Metrics().LastSequence {
		a.notice("the database has changed since sequence %d: the export will have entries of two moments", frames.seq)
	}
	if count == 0 {
		return 0, errors.Join(f.Truncate(0), rewind(f, 0))
	}
	if after := append(a.whole(last), 0); bytes.Compare(after, bounds.LowerBound) > 0 {
		bounds.LowerBound = after
	}
	return count, errors.Join(f.Truncate(end), rewind(f, end))
}

func rewind(f *os.File, at int64) error {
	_, err := f.Seek(at, io.SeekStart)
	return err
}
