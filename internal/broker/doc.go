// Package broker holds everything that talks to Kafka.
//
// What is not bound to a task lives in the Admin: options that every client
// shares (addresses, TLS, SASL, back-offs), names, the list of topics and ACLs
// that a pipeline needs, creation and checking of topics, topic ids, size
// limits, features of the cluster, start offsets, the group's plain offsets,
// trimming, and the meta record, which is the identity of a pipeline.
//
// What is bound to a task (source, producer pair, fencing, ownership) uses the
// same options and lives beside it.
//
// It does not decide anything of the protocol: that is internal/epoch. It does
// not know the pipeline file: internal/config maps YAML to Config.
//
// Held here, whoever calls:
//
//   - No topic is ever created by asking for it: automatic creation is off in
//     every client.
//   - No secret is ever logged or part of an error; files with secrets and
//     certificates are read again for each connection, so that a rotated one
//     needs no restart.
//   - A topic that the protocol rests on is refused when it could lose what it
//     holds by itself (retention, compaction of the wrong kind, unclean leader
//     election).
//   - Two workers that start a new pipeline at the same time agree on one
//     incarnation.
//
// Errors for people are *Problem: place, cause and remedy.
package broker
