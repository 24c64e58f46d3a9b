package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
	"github.com/sievedb/sievedb/vfs/outfile"
)

type importFlags struct {
	format string
	resume bool
}

func (i *importFlags) add(f *pflag.FlagSet) {
	f.StringVar(&i.format, "format", formAuto, "auto, jsonl, binary, or lines as 'scan' prints them")
	f.BoolVar(&i.resume, "resume", false, "continue an import of FILE that was interrupted")
}

// importState is what an interrupted import leaves next to its file, so that it can continue.
type importState struct {
	Dir     string `json:"dir"`
	Size    int64  `json:"size"` // of the file
	Offset  int64  `json:"offset"`
	Entries uint64 `json:"entries"`
	Format  string `json:"format"`
	path    string
}

// stateSuffix ends the name of the file with an importState.
const stateSuffix = ".import"

// maxState is larger than every state, in bytes.
const maxState = 1 << 20

// saveEvery is how many bytes of the file are read between two saved states.
const saveEvery = 64 << 20

// importEntries writes the entries of a file or of standard input. It can be repeated: an entry that was
// written before is written again.
func (a *app) importEntries(args []string, flags *importFlags) error {
	if len(args) == 1 || args[1] == "-" {
		if flags.resume {
			return misuse("--resume needs a FILE; what standard input had is not known")
		}
		in := a.input()
		defer in.Close()
		return a.importFrom(args[0], bufio.NewReaderSize(in, 1<<20), &importState{Format: flags.format})
	}
	f, err := os.Open(args[1])
	if err != nil {
		return fmt.Errorf("sievedb: %w", err)
	}
	defer f.Close()
	state, err := newImportState(args[0], args[1], f, flags)
	if err != nil {
		return err
	}
	var in io.Reader = interruptible{a.ctx, f}
	if state.path == "" { // a pipe may have nothing to read
		piped := a.inputOf(f)
		defer piped.Close()
		in = piped
	}
	return a.importFrom(args[0], bufio.NewReaderSize(in, 1<<20), state)
}

// newImportState returns where the import of a file begins, and moves f there.
func newImportState(dir, path string, f *os.File, flags *importFlags) (*importState, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		return nil, fmt.Errorf("sievedb: %s is a directory; want a file with entries", path)
	case !info.Mode().IsRegular() && flags.resume:
		return nil, misuse("--resume needs a plain file; what %s had is not known", path)
	case !info.Mode().IsRegular():
		return &importState{Format: flags.format}, nil
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	state := &importState{Dir: dir, Size: info.Size(), Format: flags.format, path: path + stateSuffix}
	if !flags.resume {
		return state, nil // an import from the beginning is always right
	}
	b, err := outfile.ReadOwn(state.path, maxState)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return state, nil
	case err != nil: // another user could choose what is skipped
		return nil, fmt.Errorf("sievedb: the state of the import cannot be used: %w; import without --resume", err)
	}
	saved := importState{path: state.path}
	if err := json.Unmarshal(b, &saved); err != nil {
		return nil, fmt.Errorf("sievedb: %s is no state of an import (%w); import without --resume", state.path, err)
	}
	if saved.Dir != dir || saved.Size != state.Size || saved.Offset < 0 || saved.Offset > saved.Size {
		return nil, fmt.Errorf("sievedb: %s is of another import: to %s, of a file of %d bytes; import without --resume", state.path, saved.Dir, saved.Size)
	}
	return &saved, rewind(f, saved.Offset)
}

// save makes an import resumable from here: what was written before survives a power cut. An import
// whose state cannot be written next to its file, as on a read-only file system, continues without.
func (s *importState) save(a *app, store *db.DB) error {
	if err := store.SyncLog(); err != nil || s.path == "" {
		return err
	}
	if err := s.write(); err != nil {
		a.notice("an interrupted import cannot be resumed, but repeated: %v", err)
		s.path = ""
	}
	return nil
}

func (s *importState) write() error {
	b, err := json.Marshal(s)
	if err == nil {
		err = outfile.Replace(s.path, append(b, '\n'), 0o600)
	}
	return err
}

// remove removes the state, unless it is not of this user.
func (s *importState) remove() error {
	if s.path == "" {
		return nil
	}
	info, err := os.Lstat(s.path)
	if err == nil && info.Mode().IsRegular() && vfs.CheckOwn(s.path, info) == nil {
		err = os.Remove(s.path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (a *app) importFrom(dir string, r *bufio.Reader, state *importState) error {
	if state.Format == formAuto {
		state.Format = detectForm(r)
	}
	in, err := a.groups(r, state.Format, state.Offset, state.Entries)
	if err != nil {
		return err
	}
	return a.open(dir, &db.Options{}, func(store *db.DB) error {
		err := a.importGroups(store, in, state)
		if err != nil {
			var serr error
			if state.Entries > 0 {
				serr = state.save(a, store)
			}
			switch {
			case serr != nil || state.Entries == 0:
			case state.path != "":
				a.say("imported so far: %s; --resume continues after them", a.out.count(state.Entries, "entry"))
			default:
				a.say("imported so far: %s; the same input can be imported again", a.out.count(state.Entries, "entry"))
			}
			return err
		}
		if err := errors.Join(store.SyncLog(), state.remove()); err != nil {
			return err
		}
		return a.out.result(struct{ Entries uint64 }{state.Entries}, func() { a.out.prose("%s imported", a.out.count(state.Entries, "entry")) })
	})
}

func (a *app) importGroups(store *db.DB, in groupReader, state *importState) error {
	p := a.progress("importing", "entry")
	if state.Size > 0 {
		p.part = func() float64 { return float64(state.Offset) / float64(state.Size) }
	}
	defer p.close()
	p.done = state.Entries
	saved := state.Offset
	var batch db.Batch
	for {
		g, err := in.next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = a.ctx.Err()
		}
		if err != nil {
			if a.ctx.Err() != nil && errors.Is(err, a.ctx.Err()) {
				return err
			}
			return fmt.Errorf("sievedb: import: %w", err)
		}
		batch.Reset()
		for _, e := range g.entries {
			batch.Put(a.whole(e.Key), e.Value)
		}
		if err := store.Apply(&batch, db.NoSync); err != nil {
			return err
		}
		state.Entries += uint64(len(g.entries))
		p.add(uint64(len(g.entries)), uint64(max(0, g.end-state.Offset)))
		state.Offset = g.end
		if g.end-saved >= saveEvery {
			if err := state.save(a, store); err != nil {
				return err
			}
			saved = g.end
		}
	}
}
