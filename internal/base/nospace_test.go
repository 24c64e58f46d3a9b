package base

import (
	stderrors "errors"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/stretchr/testify/require"
)

func TestAFullDiskIsToldByItsType(t *testing.T) {
	for _, cause := range []error{
		syscall.ENOSPC,
		syscall.EDQUOT,
		&fs.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC},
		errors.Wrap(&os.LinkError{Op: "rename", Old: "a", New: "b", Err: syscall.ENOSPC}, "context"),
	} {
		require.True(t, IsNoSpace(cause))
		err := NoSpace(cause)
		require.True(t, stderrors.Is(err, ErrNoSpace))
		require.True(t, stderrors.Is(err, cause), "the cause stays")
		require.Same(t, err, NoSpace(err), "marked once")
		require.True(t, stderrors.Is(errors.Wrap(err, "outside"), ErrNoSpace))
	}
	for _, other := range []error{nil, syscall.EIO, ErrReadOnly, fs.ErrNotExist} {
		require.False(t, IsNoSpace(other))
		require.Equal(t, other, NoSpace(other))
	}
}
