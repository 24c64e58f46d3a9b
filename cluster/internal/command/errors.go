package command

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// The texts of errors that several commands give. They are Redis's.
const (
	errSyntax    = "ERR syntax error"
	errInteger   = "ERR value is not an integer or out of range"
	errFloat     = "ERR value is not a valid float"
	errOverflow  = "ERR increment or decrement would overflow"
	errInfinity  = "ERR increment would produce NaN or Infinity"
	errTooLong   = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	errBitOffset = "ERR bit offset is not an integer or out of range"
)

// refusal is an error of a command itself: the text of its reply.
type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// answer replies with a refusal, and returns other errors.
func (c *Call) answer(err error) error {
	if text, ok := err.(refusal); ok {
		c.Reply.Error(string(text))
		return nil
	}
	return err
}

// WrongArity returns the error of a request with a wrong number of arguments.
func WrongArity(name string) string {
	return "ERR wrong number of arguments for '" + name + "' command"
}

// UnknownSubcommand returns the error of a container, such as CLIENT, without such a subcommand.
func UnknownSubcommand(container string, sub []byte) string {
	return fmt.Sprintf("ERR unknown subcommand '%.128s'. Try %s HELP.", sub, container)
}

// Moved returns the redirection of a slot to another node.
func Moved(slot uint16, addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Sprintf("MOVED %d %s", slot, addr)
	}
	// Redis writes IPv6 addresses without brackets, and clients split at the last colon.
	return fmt.Sprintf("MOVED %d %s:%s", slot, host, port)
}

// TooManyKeys returns the error of a command with more keys than it may have.
func TooManyKeys(keys, most int) string {
	return fmt.Sprintf("ERR the command has %d keys, and at most %d are possible, because others wait for it: "+
		"send several commands", keys, most)
}

// NoLeader returns the error of a slot that has no leader now.
func NoLeader(slot uint16) string {
	return fmt.Sprintf("CLUSTERDOWN slot %d has no leader now, retry later", slot)
}

// Failure returns the error that a client gets if a group or a node fails. writes says whether the
// command may have written something: then a time limit means that the outcome is unknown.
func Failure(err error, slot uint16, writes bool) string {
	var notLeader *kv.NotLeaderError
	switch {
	case errors.As(err, &notLeader):
		if notLeader.Leader == "" {
			return NoLeader(slot)
		}
		return Moved(slot, notLeader.Leader)
	case errors.Is(err, kv.ErrUnknown), writes && isTimeout(err):
		return "UNKNOWN the outcome of this write is unknown: it was not confirmed in time, and may appear later"
	case isTimeout(err):
		return "CLUSTERDOWN the read was not confirmed by enough replicas in time"
	case errors.Is(err, kv.ErrDeposed):
		return "TRYAGAIN the leadership of the slot changed before the answer was confirmed; nothing was done"
	case errors.Is(err, kv.ErrNoQuorum):
		return "CLUSTERDOWN too few replicas of the slot can be reached; nothing was done"
	case errors.Is(err, kv.ErrStale):
		return "CLUSTERDOWN this replica has not heard from a leader for too long to answer READONLY reads"
	case errors.Is(err, kv.ErrBusy):
		return "TRYAGAIN too many writes wait for their replication; nothing was done"
	case errors.Is(err, kv.ErrLate):
		return "TRYAGAIN other commands of the slot's group took until the time of this one was over; nothing was done"
	case errors.Is(err, kv.ErrTooLong):
		return "ERR the command takes longer than a node gives it; nothing was done: use fewer keys at a time"
	case errors.Is(err, kv.ErrNoSpace):
		return "MISCONF the disk of this node is full, writes are refused until it has space; nothing was done"
	case errors.Is(err, kv.ErrClosed):
		return "CLUSTERDOWN this node is stopping; nothing was done"
	}
	return "ERR " + err.Error()
}

func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
