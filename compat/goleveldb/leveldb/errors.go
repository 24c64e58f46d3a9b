package leveldb

import (
	stderrors "errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/db"

	"github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/storage"
)

// Errors to compare with ==.
var (
	ErrNotFound         = errors.ErrNotFound
	ErrReadOnly         = errors.New("leveldb: read-only mode")
	ErrSnapshotReleased = errors.New("leveldb: snapshot released")
	ErrIterReleased     = errors.New("leveldb: iterator released")
	ErrClosed           = errors.New("leveldb: closed")
)

var errTransactionDone = errors.New("leveldb: transaction already closed")

// ErrBatchCorrupted says why Batch.Load refuses data. It is the Err of an *errors.ErrCorrupted.
type ErrBatchCorrupted struct {
	Reason string
}

// Error implements error.
func (e *ErrBatchCorrupted) Error() string { return "leveldb: batch corrupted: " + e.Reason }

func corruptBatch(reason string) error {
	return errors.NewErrCorrupted(storage.FileDesc{}, &ErrBatchCorrupted{reason})
}

// ErrInternalKeyCorrupted is goleveldb's error for a damaged key in a table. SieveDB reports such a
// table with a *sievedb.CorruptionError.
type ErrInternalKeyCorrupted struct {
	Ikey   []byte
	Reason string
}

// Error implements error.
func (e *ErrInternalKeyCorrupted) Error() string {
	return fmt.Sprintf("leveldb: internal key %q corrupted: %s", e.Ikey, e.Reason)
}

// ErrManifestCorrupted says that the database belongs to another comparer. Other damage of a MANIFEST
// is a *sievedb.CorruptionError. Both are the Err of an *errors.ErrCorrupted.
type ErrManifestCorrupted struct {
	Field  string
	Reason string
}

// Error implements error.
func (e *ErrManifestCorrupted) Error() string {
	return fmt.Sprintf("leveldb: manifest corrupted (field '%s'): %s", e.Field, e.Reason)
}

// convert returns goleveldb's form of an error of SieveDB. An error of a storage is returned as it is.
func convert(err error) error {
	if err == nil {
		return nil
	}
	var (
		stored  *storageError
		damaged *sievedb.CorruptionError
	)
	switch {
	case err == db.ErrNotFound:
		return ErrNotFound
	case err == db.ErrReadOnly:
		return ErrReadOnly
	case stderrors.Is(err, db.ErrClosed):
		return ErrClosed
	case stderrors.As(err, &stored):
		return stored.err
	case stderrors.As(err, &damaged):
		fd, _ := parseName(filepath.Base(damaged.File))
		return errors.NewErrCorrupted(fd, err)
	case stderrors.Is(err, db.ErrCorruption):
		return errors.NewErrCorrupted(storage.FileDesc{}, err)
	}
	return err
}

// otherComparer is part of SieveDB's error for a database of another comparer.
const otherComparer = "the database was created with comparer"

// convertOpen is convert for the errors of opening.
func convertOpen(err error) error {
	switch converted := convert(err); {
	case converted != err:
		return converted
	case stderrors.Is(err, fs.ErrExist):
		return os.ErrExist
	case stderrors.Is(err, fs.ErrNotExist):
		return os.ErrNotExist
	case strings.Contains(err.Error(), otherComparer):
		fd := storage.FileDesc{Type: storage.TypeManifest}
		return errors.NewErrCorrupted(fd, &ErrManifestCorrupted{Field: "comparer", Reason: "mismatch: " + err.Error()})
	}
	return err
}

// levelsOverlap reports whether err says that tables of one level overlap. goleveldb chooses the tables of a
// compaction by bytes.Compare, so with another order it may leave such levels, and not find keys in them.
func levelsOverlap(err error) bool {
	var damaged *sievedb.CorruptionError
	return stderrors.As(err, &damaged) && damaged.Part == "version" && strings.HasSuffix(damaged.Detail, " overlap")
}

// closedWith begins SieveDB's error of Close if there are open iterators and snapshots, and nothing else
// is wrong. Here that is allowed.
const closedWith = "sievedb: closed with "

func convertClose(err error) error {
	if err != nil && strings.HasPrefix(err.Error(), closedWith) {
		return nil
	}
	return convert(err)
}
