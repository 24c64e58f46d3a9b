package command

import (
	"crypto/sha1"
	"encoding/hex"
	"math"
	"strconv"
	"strings"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// EVAL and EVALSHA evaluate the scripts below, which libraries for locks send, and no others. Each compares the value
// of its only key with its first argument, and then releases the lock or lets it live longer. A script is known by its
// SHA-1, as EVALSHA names it: so each node knows it, and a text that differs in anything is refused.
const (
	scriptKey = 3 // the argument after the script and the number of keys

	errNoScripts = "ERR this server evaluates only the scripts of some libraries for locks, and this is none of them: " +
		"DELEX key IFEQ value deletes a key that has a value, SET key value IFEQ old changes it"
	errNoScript  = "NOSCRIPT No matching script. Please use EVAL."
	errScriptKey = "ERR the script has one key and at least one argument"
)

// lockScript is what a script does if the key has the value.
type lockScript struct {
	then   func(c *Call, tx kv.Tx, v kv.Value) error
	absent int64 // the reply without the key; 0 if it has another value
}

var lockScripts = map[string]lockScript{
	"b70c2384248f88e6b75b9f89241a180f856ad852": {then: release},             // Redis's documentation, sessions of PhpRedis
	"647c65a442733a1aa440f99908d249d13b4d6c4a": {then: release},             // the same in five lines; Laravel
	"00583931c4e4d483f6233879c133c71ed5393f9d": {then: release},             // redsync 4.0 to 4.11
	"e950836ed1e694540c503ef9972b8de518044d3b": {then: release, absent: -1}, // redsync from 4.12 on
	"d75bb8b5bd13532ddedd17762e772346e39b321e": {then: prolong},             // redsync 4
	"c3f8721cbb97f72bc19e972846bd7aaf91901658": {then: release},             // redis-py, Lock.release
	"1cac51482acf5858da00f6d685d68f886cd6b6b2": {then: prolong},             // redis-py, Lock.reacquire
	"a4e8783852e6b949f9ef3a97212805108459a890": {then: extend},              // redis-py, Lock.extend
}

// lockScriptOf returns the script of a request for EVAL or EVALSHA.
func lockScriptOf(args [][]byte) (s lockScript, ok bool) {
	digest := strings.ToLower(string(args[1][:min(len(args[1]), 2*sha1.Size+1)]))
	if len(args[0]) == len("eval") {
		sum := sha1.Sum(args[1])
		digest = hex.EncodeToString(sum[:])
	}
	s, ok = lockScripts[digest]
	return s, ok
}

func refuseScript(args [][]byte) string {
	switch _, ok := lockScriptOf(args); {
	case !ok && len(args[0]) == len("eval"):
		return errNoScripts
	case !ok:
		return errNoScript
	case string(args[2]) != "1" || len(args) < scriptKey+2:
		return errScriptKey
	}
	return ""
}

func evalScript(c *Call, tx kv.Tx) error {
	s, _ := lockScriptOf(c.Args) // refuseScript has looked at it
	v, found, err := tx.Get(c.Args[scriptKey])
	switch {
	case err != nil:
		return err
	case !found:
		c.Reply.Int(s.absent)
	case string(v.Data) != string(c.Args[scriptKey+1]):
		c.Reply.Int(0)
	default:
		return s.then(c, tx, v)
	}
	return nil
}

func release(c *Call, tx kv.Tx, _ kv.Value) error {
	tx.Delete(c.Args[scriptKey])
	c.Reply.Int(1)
	return nil
}

// prolong sets the time to live to the second argument of the script, in milliseconds.
func prolong(c *Call, tx kv.Tx, _ kv.Value) error {
	if len(c.Args) < scriptKey+3 {
		return refusal(WrongArity("pexpire"))
	}
	args := [][]byte{[]byte("pexpire"), c.Args[scriptKey], c.Args[scriptKey+2]}
	return expire("pexpire", inMillis)(&Call{Args: args, Reply: c.Reply, Limits: c.Limits}, tx)
}

// extend is prolong for a key that expires. If the third argument is "0", the time to live is added to what is left.
func extend(c *Call, tx kv.Tx, v kv.Value) error {
	switch {
	case v.ExpireAt == 0:
		c.Reply.Int(0)
		return nil
	case len(c.Args) > scriptKey+3 && string(c.Args[scriptKey+3]) == "0":
		more, err := c.integer(scriptKey + 2)
		if err != nil {
			return err
		}
		left := v.ExpireAt - tx.Now()
		if more > math.MaxInt64-left {
			return invalidExpiry("pexpire")
		}
		sum := strconv.AppendInt(nil, more+left, 10)
		c = &Call{Args: [][]byte{c.Args[0], c.Args[1], c.Args[2], c.Args[scriptKey], nil, sum}, Reply: c.Reply, Limits: c.Limits}
	}
	return prolong(c, tx, v)
}
