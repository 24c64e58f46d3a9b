package dbdir

import (
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// ExplainLink adds to an error about a symbolic link what to do. readOnly says that the directory was opened for
// reading.
func ExplainLink(err error, readOnly bool) error {
	switch {
	case !errors.Is(err, vfs.ErrSymlink):
		return err
	case readOnly:
		return errors.Wrap(err, "sievedb: a link that has the name of a file of a database must lead to a plain file, and the file system must follow it; "+
			"put what is missing there, or replace the link with a copy")
	}
	return errors.Wrap(err, "sievedb: files of a database that is changed must not be links, which may lead to the files of others; replace the link "+
		"with a copy of the file that it leads to, or open the database with Options.ReadOnly")
}
