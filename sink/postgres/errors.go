package postgres

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"exactly/sink"
)

// Codes of refused records, beside those of package step/cel for values that
// are not what they should be.
const (
	codeConstraint   = "constraint"    // NOT NULL, CHECK, UNIQUE, a foreign key, an exclusion
	codeValue        = "value"         // not of the column's type, or out of its range
	codeRaised       = "raised"        // a trigger or function raised an error
	codeTooBig       = "too_big"       // beyond a limit of the server
	codeKey          = "key_missing"   // no value for a key column, or a delete without a usable key
	codeRefused      = "refused"       // for a reason that might be the table's, had it not taken other records
	codeUnknownField = "unknown_field" // with unknown_fields: reject
	codeNoColumns    = "no_columns"    // nothing in the record has a column
	codeVersion      = "version_missing"
)

// state is the SQLSTATE of an error of the server, "" of any other.
func state(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// tableOf is the table that an error of the server names, "" for none.
func tableOf(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.TableName
	}
	return ""
}

// stateTimeout: the statement took longer than statement_timeout, or somebody has
// cancelled it.
const stateTimeout = "57014"

// stateUnsupported: the server never does this, or not during recovery.
const stateUnsupported = "0A000"

// States of what there is not enough of.
const (
	stateMemory      = "53200" // also of room for locks
	stateTransaction = "25P04" // transaction_timeout
)

// tooMuch: fewer rows at once may do.
func tooMuch(err error) bool {
	s := state(err)
	return s == stateTimeout || s == stateMemory || s == stateTransaction || errors.Is(err, errSlow)
}

// States of who meets others.
const (
	stateLocked        = "55P03" // the lock was not to be had within lock_timeout
	stateDeadlock      = "40P01"
	stateSerialization = "40001"
)

// serverClasses are those of the server's own errors. Functions and triggers may
// raise any other (PostgreSQL manual, 43.9.1 and appendix A).
var serverClasses = strings.Fields("00 01 02 03 08 09 0A 0B 0F 0L 0P 0Z 20 21 22 23 24 25 26 27 28 2B 2D 2F 34 38 39 3B 3D 3F 40 42 44 53 54 55 57 58 72 F0 HV P0 XX")

// refusal turns the error of a row's statement into a poison error; nil, where
// it is not the row's fault. Classes by the PostgreSQL manual, appendix A.
func refusal(what string, err error) error {
	s := state(err)
	code := ""
	switch {
	case len(s) != 5:
		return nil
	case s[:2] == "23", s == "44000":
		code = codeConstraint
	case s[:2] == "22", s == "21000":
		code = codeValue
	case s[:2] == "P0", s[:2] == "38", s[:2] == "39", !slices.Contains(serverClasses, s[:2]):
		code = codeRaised
	case s[:2] == "54":
		code = codeTooBig
	default:
		return nil
	}
	return sink.Poison(code, fmt.Errorf("%s refuses the row: %w", what, reason(err)))
}

// doubtful: the server's error does not say whether the row is at fault or the table.
// A trigger may raise any state, and so may the input of a type (hstore, ltree,
// regclass).
func doubtful(err error) bool {
	s := state(err)
	if len(s) != 5 || refusal("", err) != nil {
		return false
	}
	return persists(s) || sink.Classify(classed(err)) == sink.ClassFatal
}

// persists: the state is of a class that passes by itself, and is met again at once
// where it is a row's fault. Who waits for a lock has to go on waiting, and
// damaged data is nobody's dead letter.
func persists(s string) bool { return s[:2] == "55" && s != stateLocked || s == "XX000" }

// reason keeps what people need of an error: never DETAIL, which quotes rows.
func reason(err error) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return err
	}
	text := e.Message
	if e.ConstraintName != "" && !strings.Contains(text, e.ConstraintName) {
		text += " (" + e.ConstraintName + ")"
	}
	return fmt.Errorf("%s: %s", e.Code, text)
}

// unconnected classes the failure to open a session. Who cannot prove who they are
// needs a person, on either end; what else keeps a server away passes.
func unconnected(err error, cfg *pgconn.Config) error {
	remedy := ""
	op := (*net.OpError)(nil)
	switch s := state(err); {
	case s == "28000" && cfg.TLSConfig == nil: // no entry of pg_hba.conf lets them in, which may be for want of TLS
		remedy = "check user and database in dsn; a server that takes only TLS says this too: set sslmode=verify-full and sslrootcert in dsn"
	case s == "28000" && len(cfg.TLSConfig.Certificates) == 0:
		remedy = "check user and database in dsn; a server that asks for a client certificate says this too: set sslcert and sslkey in dsn"
	case s == "28000":
		remedy = "check user and database in dsn; the certificate of sslcert has to be that user's"
	case s == "28P01":
		remedy = "check the user in dsn and the password there or in password_file"
	case s != "":
		return err
	case errors.As(err, new(x509.UnknownAuthorityError)):
		remedy = "sslrootcert in dsn has to be the certificate of the authority that signed the server's"
	case errors.As(err, new(x509.HostnameError)):
		remedy = "the server's certificate is for another name: write in dsn the host that it was made for"
	case errors.As(err, new(x509.CertificateInvalidError)):
		remedy = "the server's certificate cannot be used: renew it"
	case errors.As(err, &op) && op.Op == "remote error": // an alert of TLS
		remedy = "the server refuses the certificate of sslcert in dsn: it has to be valid, and signed by an authority that the server knows"
	default:
		return sink.Transient(err)
	}
	return sink.Fatal(fmt.Errorf("%w; %s", err, remedy))
}

// classed says what the engine shall do about an error of the database. What is
// classed already stays so.
func classed(err error) error {
	s := state(err)
	if len(s) != 5 || sink.Classify(err) != sink.ClassTransient || sink.IsTransient(err) {
		return err
	}
	switch s[:2] {
	case "08", // connection
		"25",             // a read-only standby, a transaction that another statement has ended
		"40",             // serialisation, deadlock
		"53", "57", "58", // resources, an operator or a time-out, input and output
		"55", // a lock that was not to be had
		"XX":
		return sink.Transient(err)
	}
	if s == "3D000" {
		return sink.Fatal(fmt.Errorf("%w; check the database in dsn", err))
	}
	if s == "42501" {
		return sink.Fatal(fmt.Errorf("%w; GRANT it to the user of dsn", err))
	}
	return sink.Fatal(err)
}
