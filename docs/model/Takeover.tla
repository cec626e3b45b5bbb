------------------------------ MODULE Takeover ------------------------------
(***************************************************************************)
(* How a task of a stateful job passes from one instance to another: the   *)
(* protocol of docs/protocol.md.  Each task has a changelog, from which    *)
(* its store can be restored; an instance that is assigned to it fences    *)
(* earlier owners, restores the store to the changelog's end, and goes on  *)
(* from the last commit record.                                            *)
(*                                                                         *)
(* tests/model/takeover.py is the same model in Python, action by action   *)
(* and invariant by invariant, and both have the same number of states.    *)
(*                                                                         *)
(* What it abstracts from:                                                 *)
(* - A task's state is one key, whose value counts inputs; each input is a *)
(*   transaction: a change, an output, a commit record.  The offsets of    *)
(*   the consumer group, which nothing reads back, are left out.           *)
(* - Readers read committed records.  An open transaction is in the copy   *)
(*   that writes it; markers and aborted records take no offsets, except   *)
(*   those of a commit that was acknowledged and lost.                     *)
(* - Nothing is compacted and nothing expires: a change is a whole value,  *)
(*   so a reader that misses an older one ends with the same store.        *)
(* - A pause has no length: an instance takes its next step some time, so  *)
(*   a zombie is one that takes it late.  A slow end is one whose request  *)
(*   was sent twice; the time that tells it (0.8 s) is not modelled.       *)
(* - The log of a partition is whole: no unclean leader, no topic that was *)
(*   made again, no second writer.                                         *)
(* - Who is to be active is any choice; which choice is best is not asked. *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Instances,     \* two processes that may own a task
    Publishers,    \* two runs of Airflow that may publish an assignment
    Partitions,    \* each is a task
    Inputs,        \* how many records each partition's source has
    Generations,   \* how many assignments are published
    Crashes,       \* how often a process may crash
    LateEnds,      \* how many requests that end a transaction may be late
    LostMarkers,   \* how many commits the brokers may acknowledge and not mark
    Off,           \* rules that are switched off, to see what they are for
    NoInstance

VARIABLES
    assignments,   \* the topic: generation, and for each task the owner, and since when
    publisher,     \* of each publisher, how far it is
    up,            \* which processes run
    copy,          \* of each task and instance, what it does, and its store
    log,           \* of each task, the changelog as readers see it
    hidden,        \* what was committed, acknowledged, and not marked
    outputs,       \* the inputs whose outputs readers see
    holder,        \* who fenced last: the brokers take requests of nobody else
    late,          \* whether a request of that one to commit is still on its way
    crashes, lateEnds, lostMarkers   \* how many are left

control == <<assignments, publisher>>
broker == <<log, hidden, outputs, holder, late>>
left == <<crashes, lateEnds, lostMarkers>>
vars == <<control, up, copy, broker, left>>

Rule(name) == name \notin Off

Symmetry == Permutations(Instances) \cup Permutations(Publishers) \cup Permutations(Partitions)

-----------------------------------------------------------------------------
(* Records and stores *)

Change(value) == [kind |-> "change", value |-> value]
Output(row) == [kind |-> "output", value |-> row]
CommitOf(next, generation, instance) ==
    [kind |-> "commit", next |-> next, generation |-> generation, instance |-> instance, fenced |-> FALSE]
Lost == [kind |-> "lost"]

IsLogged(record) == record.kind # "output"
Logged(records) == SelectSeq(records, IsLogged)
Size(records) == Len(Logged(records))
RowsOf(records) ==
    LET put == SelectSeq(records, LAMBDA record: record.kind = "output")
    IN [n \in 1..Len(put) |-> put[n].value]
LostRecords(records) == [n \in 1..Size(records) |-> Lost]

EmptyStore == [position |-> 0, value |-> <<>>, next |-> 0, generation |-> 0, own |-> FALSE]

Applied(store, record) ==
    CASE record.kind = "change" -> [store EXCEPT !.value = record.value, !.position = @ + 1]
      [] record.kind = "commit" ->
            [store EXCEPT !.next = record.next, !.generation = record.generation, !.position = @ + 1]
      [] record.kind = "lost" -> [store EXCEPT !.position = @ + 1]
      [] OTHER -> store

RECURSIVE AppliedAll(_, _)
AppliedAll(store, records) ==
    IF records = <<>> THEN store ELSE AppliedAll(Applied(store, Head(records)), Tail(records))

Prefix(records, length) == SubSeq(records, 1, length)

\* What an empty store becomes by a changelog.
RestoredFrom(records) == AppliedAll(EmptyStore, records)

Max(numbers) == CHOOSE n \in numbers: \A m \in numbers: m <= n

Copy(store, mode, plan) ==
    [store |-> store, mode |-> mode, plan |-> plan, at |-> 0, batch |-> <<>>, step |-> 0, cut |-> 0]

Busy == {"writing", "stored", "committed", "slow", "half"}
Idle == [phase |-> "idle", seen |-> 0]
GenerationOf(p, c) == assignments[c.plan].since[p]

\* Active, with no producer.  (Without the rule the end of the changelog is asked for here.)
Owning(p, c) == [Copy(c.store, "owning", c.plan) EXCEPT !.at = IF Rule("LastEnd") THEN 0 ELSE Len(log[p])]

Become(p, i, c) == copy' = [copy EXCEPT ![p][i] = c]

-----------------------------------------------------------------------------
Init ==
    /\ assignments = <<>>
    /\ publisher = [q \in Publishers |-> Idle]
    /\ up = [i \in Instances |-> TRUE]
    /\ copy = [p \in Partitions |-> [i \in Instances |-> Copy(EmptyStore, "off", 0)]]
    /\ log = [p \in Partitions |-> <<>>]
    /\ hidden = [p \in Partitions |-> <<>>]
    /\ outputs = [p \in Partitions |-> <<>>]
    /\ holder = [p \in Partitions |-> NoInstance]
    /\ late = [p \in Partitions |-> FALSE]
    /\ crashes = Crashes
    /\ lateEnds = LateEnds
    /\ lostMarkers = LostMarkers

-----------------------------------------------------------------------------
(* Publishers: fence, read, decide, publish *)

PublisherFences(q) ==
    /\ Len(assignments) < Generations
    /\ publisher[q].phase = IF Rule("PublisherReadsFenced") THEN "idle" ELSE "read"
    /\ publisher' = [r \in Publishers |->
            CASE r = q -> [publisher[q] EXCEPT !.phase = IF @ = "idle" THEN "fenced" ELSE "ready"]
              [] r # q /\ Rule("PublisherFencing") /\ publisher[r].phase \in {"fenced", "ready"} -> Idle
              [] OTHER -> publisher[r]]
    /\ UNCHANGED <<assignments, up, copy, broker, left>>

PublisherReads(q) ==
    /\ Len(assignments) < Generations
    /\ publisher[q].phase = IF Rule("PublisherReadsFenced") THEN "fenced" ELSE "idle"
    /\ publisher' = [publisher EXCEPT ![q] =
            [phase |-> IF @.phase = "fenced" THEN "ready" ELSE "read", seen |-> Len(assignments)]]
    /\ UNCHANGED <<assignments, up, copy, broker, left>>

\* An owner that stays is one since the generation in which it became it.
Publish(q) ==
    /\ Len(assignments) < Generations
    /\ publisher[q].phase = "ready"
    /\ \E owner \in [Partitions -> Instances]:
        LET seen == publisher[q].seen
            generation == IF seen = 0 THEN 1 ELSE assignments[seen].generation + 1
            Stays(p) == seen # 0 /\ assignments[seen].owner[p] = owner[p]
            since == [p \in Partitions |-> IF Stays(p) THEN assignments[seen].since[p] ELSE generation]
        IN assignments' = Append(assignments, [generation |-> generation, owner |-> owner, since |-> since])
    /\ publisher' = [r \in Publishers |->
            IF r = q \/ Len(assignments) + 1 = Generations THEN Idle ELSE publisher[r]]
    /\ UNCHANGED <<up, copy, broker, left>>

-----------------------------------------------------------------------------
(* Processes *)

Crash(i) ==
    /\ up[i]
    /\ crashes > 0
    /\ crashes' = crashes - 1
    /\ up' = [up EXCEPT ![i] = FALSE]
    /\ copy' = [p \in Partitions |-> [copy[p] EXCEPT ![i] = Copy(@.store, "off", 0)]]
    /\ UNCHANGED <<control, broker, lateEnds, lostMarkers>>

Restart(i) ==
    /\ ~up[i]
    /\ up' = [up EXCEPT ![i] = TRUE]
    /\ UNCHANGED <<control, copy, broker, left>>

\* The write-ahead log was not on disk: the store is as at the commit before.  Again and again, and it is gone.
StoreShrinks(p, i) ==
    /\ ~up[i]
    /\ copy[p][i].store.position > 0
    /\ LET end == copy[p][i].store.position
           ends == {n \in 1..Len(log[p]): n < end /\ log[p][n].kind = "commit"}
       IN Become(p, i, Copy(RestoredFrom(Prefix(log[p], Max(ends \cup {0}))), "off", 0))
    /\ UNCHANGED <<control, up, broker, left>>

-----------------------------------------------------------------------------
(* Step 1 of the protocol: be assigned, fence, restore *)

\* The newest assignment.  Active since the same generation, nothing changes.
Adopt(p, i) ==
    LET c == copy[p][i]
        plan == Len(assignments)
        IsActive(k) == k # 0 /\ assignments[k].owner[p] = i
        stays == IsActive(plan) /\ IsActive(c.plan) /\ assignments[plan].since[p] = assignments[c.plan].since[p]
        follows == ~IsActive(plan) /\ c.mode = "standby"
    IN  /\ up[i]
        /\ c.mode \notin Busy
        /\ c.plan < plan
        /\ Become(p, i, IF stays \/ follows THEN [c EXCEPT !.plan = plan]
                        ELSE IF IsActive(plan) THEN Owning(p, Copy(c.store, "owning", plan))
                        ELSE Copy(c.store, "standby", plan))
        /\ UNCHANGED <<control, up, broker, left>>

Abort(p) ==
    /\ log' = [log EXCEPT ![p] = @ \o LostRecords(hidden[p])]
    /\ hidden' = [hidden EXCEPT ![p] = <<>>]

\* No earlier owner can write any more, and what the last one left open is aborted.  What it had committed without a
\* marker may go with that.
Fence(p, i) ==
    /\ up[i]
    /\ copy[p][i].mode = "owning"
    /\ holder' = [holder EXCEPT ![p] = i]
    /\ Become(p, i, [copy[p][i] EXCEPT !.mode = "fenced"])
    /\ IF Rule("Fencing")
       THEN /\ late' = [late EXCEPT ![p] = FALSE]
            /\ \/ UNCHANGED <<log, hidden>>
               \/ hidden[p] # <<>> /\ Abort(p)
       ELSE UNCHANGED <<late, log, hidden>>
    /\ UNCHANGED <<control, up, outputs, left>>

\* Where the end is hidden by what the store holds as its own last commit, the next commit ends that too.
AskEnd(p, i) ==
    LET c == copy[p][i]
        readable == hidden[p] = <<>> \/ ~Rule("WaitForHidden")
        end == IF Rule("LastEnd") THEN Len(log[p]) ELSE c.at
    IN  /\ up[i]
        /\ c.mode = "fenced"
        /\ \/ readable /\ Become(p, i, [c EXCEPT !.mode = "restoring", !.at = end])
           \/ /\ ~readable
              /\ c.store.position = Len(log[p]) + Size(hidden[p])
              /\ Become(p, i, [c EXCEPT !.mode = "running", !.at = 0])
        /\ UNCHANGED <<control, up, broker, left>>

\* Where it is hidden by anything else, the owner waits until an operator ends that.
OperatorAborts(p, i) ==
    LET c == copy[p][i]
    IN  /\ up[i]
        /\ c.mode = "fenced"
        /\ holder[p] = i \/ ~Rule("AbortForHolder")
        /\ Rule("WaitForHidden")
        /\ hidden[p] # <<>>
        /\ c.store.position # Len(log[p]) + Size(hidden[p])
        /\ Abort(p)
        /\ UNCHANGED <<control, up, copy, outputs, holder, late, left>>

\* A standby reads without end, an owner up to the end that it asked for.
EndFor(p, c) == IF c.mode = "restoring" THEN c.at ELSE Len(log[p])

\* Without the rule a standby also reads what the owner has written and not ended.
Readable(p, c) ==
    LET i == holder[p]
        opened == IF copy[p][i].mode = "writing"
                  THEN SubSeq(copy[p][i].batch, copy[p][i].cut + 1, copy[p][i].step) ELSE <<>>
    IN  IF c.mode = "restoring" THEN Prefix(log[p], c.at)
        ELSE IF Rule("ReadCommitted") \/ i = NoInstance THEN log[p]
        ELSE log[p] \o Logged(hidden[p] \o opened)

\* The last commit of the store's owner is there, or a later one that holds all of it; else the store is restored afresh.
ReadBack(p, i) ==
    LET c == copy[p][i]
        store == c.store
        later == {n \in (store.position + 1)..EndFor(p, c): log[p][n].kind = "commit"}
        found == log[p][store.position] # Lost \/ \E n \in later: log[p][n].next >= store.next
        afresh == [c EXCEPT !.store = EmptyStore]
    IN  /\ up[i]
        /\ c.mode \in {"standby", "restoring"}
        /\ store.own
        /\ store.position <= EndFor(p, c)
        /\ Become(p, i, IF found THEN [c EXCEPT !.store.own = FALSE]
                        ELSE IF c.mode = "standby" THEN afresh ELSE Owning(p, afresh))
        /\ UNCHANGED <<control, up, broker, left>>

Apply(p, i) ==
    LET c == copy[p][i]
    IN  /\ up[i]
        /\ c.mode \in {"standby", "restoring"}
        /\ ~c.store.own
        /\ c.store.position < Len(Readable(p, c))
        /\ Become(p, i, [c EXCEPT !.store = Applied(@, Readable(p, c)[c.store.position + 1])])
        /\ UNCHANGED <<control, up, broker, left>>

\* It goes on from the last commit, unless that is a later owner's.
Restored(p, i) ==
    LET c == copy[p][i]
        outdated == Rule("GenerationCheck") /\ c.store.generation > GenerationOf(p, c)
    IN  /\ up[i]
        /\ c.mode = "restoring"
        /\ ~c.store.own
        /\ c.store.position >= c.at
        /\ Become(p, i, [c EXCEPT !.mode = IF outdated THEN "outdated" ELSE "running", !.at = 0])
        /\ UNCHANGED <<control, up, broker, left>>

\* One that was fenced, and hears of no newer assignment, was fenced by an outdated one.  One that waits for the end of
\* what hides the changelog may have been.
FenceAgain(p, i) ==
    LET c == copy[p][i]
    IN  /\ up[i]
        /\ \/ c.mode = "closed" /\ Rule("FencedFencesAgain")
           \/ /\ c.mode = "fenced" /\ Rule("WaitForHidden")
              /\ hidden[p] # <<>>
              /\ c.store.position # Len(log[p]) + Size(hidden[p])
        /\ Become(p, i, Owning(p, c))
        /\ UNCHANGED <<control, up, broker, left>>

-----------------------------------------------------------------------------
(* Steps 2 to 5: a transaction, then the store *)

Taken(p, i) == holder[p] = i \/ ~Rule("Fencing")

\* Rows below the recorded offset may come again: they are dropped.
RowsFor(store) ==
    LET at == IF Rule("ResumeAtCommit") THEN store.next ELSE store.next + 1
    IN {row \in 0..at: row < Inputs /\ (Rule("DropRows") => row = at)}

\* 4. Changes, outputs, and last the commit record.
BatchOf(p, i, row) ==
    LET c == copy[p][i]
        change == Change(Append(c.store.value, row))
        commit == CommitOf(row + 1, GenerationOf(p, c), i)
    IN IF Rule("RecordLast") THEN <<change, Output(row), commit>> ELSE <<commit, change, Output(row)>>

\* Without the rule an output is seen at once.
Written(p, i, c) ==
    LET record == c.batch[c.step + 1]
    IN  /\ Become(p, i, [c EXCEPT !.step = @ + 1])
        /\ outputs' = [outputs EXCEPT ![p] =
                IF record.kind = "output" /\ ~Rule("OneTransaction") THEN Append(@, record.value) ELSE @]

\* The first request of an owner that was fenced is refused; where the model has no input left another comes some time.
Write(p, i) ==
    LET c == copy[p][i]
    IN  /\ up[i]
        /\ Taken(p, i)
        /\ \/ /\ c.mode = "running"
              /\ c.store.next < Inputs
              /\ \E row \in RowsFor(c.store):
                    Written(p, i, [c EXCEPT !.mode = "writing", !.batch = BatchOf(p, i, row)])
           \/ c.mode = "writing" /\ c.step < Len(c.batch) /\ Written(p, i, c)
        /\ UNCHANGED <<control, up, log, hidden, holder, late, left>>

Refused(p, i) ==
    LET c == copy[p][i]
    IN  /\ up[i]
        /\ ~Taken(p, i)
        /\ c.mode \in {"running", "writing", "stored"}
        /\ Become(p, i, Copy(c.store, "closed", c.plan))
        /\ UNCHANGED <<control, up, broker, left>>

\* Any error: the producer is given up, and the task owned again.
Fail(p, i) ==
    LET c == copy[p][i]
    IN  /\ up[i]
        /\ c.mode \in {"writing", "stored"}
        /\ Become(p, i, Owning(p, c))
        /\ UNCHANGED <<control, up, broker, left>>

IsWritten(p, i) ==
    LET c == copy[p][i]
    IN  /\ up[i]
        /\ Taken(p, i)
        /\ c.step = Len(c.batch)
        /\ c.mode = IF Rule("StoreAfterCommit") THEN "writing" ELSE "stored"
        /\ c.batch # <<>>

OpenRecords(c) ==
    SelectSeq(SubSeq(c.batch, c.cut + 1, Len(c.batch)), LAMBDA r: r.kind # "output" \/ Rule("OneTransaction"))

\* Readers see the records of an instance, and what was hidden.
Show(p, i, records) ==
    LET signed == [n \in 1..Len(records) |->
            IF records[n].kind = "commit" THEN [records[n] EXCEPT !.fenced = holder[p] # i] ELSE records[n]]
        shown == hidden[p] \o signed
    IN  /\ log' = [log EXCEPT ![p] = @ \o Logged(shown)]
        /\ outputs' = [outputs EXCEPT ![p] = @ \o RowsOf(shown)]
        /\ hidden' = [hidden EXCEPT ![p] = <<>>]

CommittedAt(p, c, mode) ==
    LET records == hidden[p] \o OpenRecords(c)
    IN [c EXCEPT !.mode = mode, !.at = Len(log[p]) + Size(records), !.step = 0, !.cut = 0]

Commit(p, i) ==
    LET c == copy[p][i]
    IN  /\ IsWritten(p, i)
        /\ Show(p, i, OpenRecords(c))
        /\ Become(p, i, IF c.mode = "stored" THEN Copy(c.store, "running", c.plan)
                        ELSE CommittedAt(p, c, "committed"))
        /\ UNCHANGED <<control, up, holder, late, left>>

CommitUnknown(p, i) ==
    LET c == copy[p][i]
        again == [Owning(p, c) EXCEPT !.at = IF Rule("LastEnd") THEN 0 ELSE CommittedAt(p, c, "committed").at]
    IN  /\ IsWritten(p, i)
        /\ c.mode = "writing"
        /\ Show(p, i, OpenRecords(c))
        /\ Become(p, i, IF Rule("OwnAgain") THEN again ELSE Copy(c.store, "running", c.plan))
        /\ UNCHANGED <<control, up, holder, late, left>>

\* The client sent the end twice, and the first request is on its way.
CommitSlow(p, i) ==
    LET c == copy[p][i]
    IN  /\ IsWritten(p, i)
        /\ c.mode = "writing"
        /\ lateEnds > 0
        /\ lateEnds' = lateEnds - 1
        /\ late' = [late EXCEPT ![p] = TRUE]
        /\ Show(p, i, OpenRecords(c))
        /\ Become(p, i, CommittedAt(p, c, "slow"))
        /\ UNCHANGED <<control, up, holder, crashes, lostMarkers>>

\* The end failed, with its request on its way, and the transaction was aborted at once.
AbortSlow(p, i) ==
    LET c == copy[p][i]
    IN  /\ IsWritten(p, i)
        /\ c.mode = "writing"
        /\ lateEnds > 0
        /\ lateEnds' = lateEnds - 1
        /\ late' = [late EXCEPT ![p] = TRUE]
        /\ Become(p, i, IF Rule("AbortProvesNothing") THEN Owning(p, c) ELSE Copy(c.store, "running", c.plan))
        /\ UNCHANGED <<control, up, log, hidden, outputs, holder, crashes, lostMarkers>>

\* The brokers acknowledge the end and lose its marker: the records end with that producer's next transaction.
CommitUnmarked(p, i) ==
    LET c == copy[p][i]
    IN  /\ IsWritten(p, i)
        /\ c.mode = "writing"
        /\ lostMarkers > 0
        /\ lostMarkers' = lostMarkers - 1
        /\ hidden' = [hidden EXCEPT ![p] = @ \o OpenRecords(c)]
        /\ Become(p, i, CommittedAt(p, c, "committed"))
        /\ UNCHANGED <<control, up, log, outputs, holder, late, crashes, lateEnds>>

\* The late request ends whatever its producer has open.
LateEnd(p) ==
    LET i == holder[p]
        isOpen == i # NoInstance /\ copy[p][i].mode = "writing"
    IN  /\ late[p]
        /\ late' = [late EXCEPT ![p] = FALSE]
        /\ IF isOpen
           THEN LET c == copy[p][i]
                IN  /\ Show(p, i, SubSeq(c.batch, c.cut + 1, c.step))
                    /\ Become(p, i, [c EXCEPT !.cut = c.step])
           ELSE UNCHANGED <<log, hidden, outputs, copy>>
        /\ UNCHANGED <<control, up, holder, left>>

\* 5. Values and position, in one write.
Stored(c, at) == [AppliedAll(c.store, c.batch) EXCEPT !.position = at, !.own = Rule("ReadBack")]

WriteStore(p, i) ==
    LET c == copy[p][i]
        after == Copy(Stored(c, c.at), "running", c.plan)
        early == Stored(c, Len(log[p]) + Size(c.batch))
    IN  /\ up[i]
        /\ \/ /\ c.mode = "committed"
              /\ Become(p, i, IF Rule("OneWrite") THEN after
                              ELSE [c EXCEPT !.mode = "half", !.store = [after.store EXCEPT !.value = c.store.value]])
           \/ c.mode = "slow" /\ Become(p, i, IF Rule("NewProducer") THEN Owning(p, after) ELSE after)
           \/ c.mode = "half" /\ Become(p, i, after)
           \/ /\ c.mode = "writing" /\ ~Rule("StoreAfterCommit")
              /\ c.step = Len(c.batch) /\ Taken(p, i)
              /\ Become(p, i, [c EXCEPT !.mode = "stored", !.store = early])
        /\ UNCHANGED <<control, up, broker, left>>

-----------------------------------------------------------------------------
\* Whether every input is committed, which an idle owner knows that lost its marker.
IsDone(p) == RestoredFrom(Logged(log[p] \o hidden[p])).next = Inputs

\* An end is no standstill.
Ended == (\A p \in Partitions: IsDone(p)) /\ UNCHANGED vars

Next ==
    \/ \E q \in Publishers: PublisherFences(q) \/ PublisherReads(q) \/ Publish(q)
    \/ \E i \in Instances: Crash(i) \/ Restart(i)
    \/ \E p \in Partitions, i \in Instances:
        \/ StoreShrinks(p, i) \/ Adopt(p, i) \/ Fence(p, i) \/ AskEnd(p, i) \/ OperatorAborts(p, i)
        \/ ReadBack(p, i) \/ Apply(p, i) \/ Restored(p, i) \/ FenceAgain(p, i)
        \/ Write(p, i) \/ Refused(p, i) \/ Fail(p, i)
        \/ Commit(p, i) \/ CommitUnknown(p, i) \/ CommitSlow(p, i) \/ AbortSlow(p, i) \/ CommitUnmarked(p, i)
        \/ WriteStore(p, i)
    \/ \E p \in Partitions: LateEnd(p)
    \/ Ended

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Invariants *)

FirstRows(n) == [k \in 1..n |-> k - 1]
CommitsOf(p) == {n \in 1..Len(log[p]): log[p][n].kind = "commit"}

\* What readers see counts each input that a commit stands for once, and has put it out once.
ExactlyOnce ==
    \A p \in Partitions:
        LET seen == RestoredFrom(log[p])
        IN seen.value = FirstRows(seen.next) /\ outputs[p] = FirstRows(seen.next)

\* Two instances never commit in the same generation.
OneOwnerPerGeneration ==
    \A p \in Partitions: \A m, n \in CommitsOf(p):
        log[p][m].generation = log[p][n].generation => log[p][m].instance = log[p][n].instance

\* Behind a commit there is none of an earlier generation: an outdated owner writes nothing.
GenerationsGrow ==
    \A p \in Partitions: \A m, n \in CommitsOf(p): m < n => log[p][m].generation <= log[p][n].generation

\* No commit is of an owner that had been fenced.
FencedWritesNothing == \A p \in Partitions: \A n \in CommitsOf(p): ~log[p][n].fenced

\* A store is what the changelog makes of an empty one up to its position, and never claims more than it holds.
\* Only a commit that the brokers lost may be in one, until it is read back: it is not gone on from.
StoreIsPrefix ==
    \A p \in Partitions: \A i \in Instances:
        LET c == copy[p][i]
            store == c.store
            known == Logged(log[p] \o hidden[p])
            inUse == c.mode \in {"running", "writing", "committed", "slow"} /\ holder[p] = i
            caughtUp == c.mode = "standby" /\ ~store.own /\ store.position = Len(log[p])
            holdsLost == \E n \in 1..Len(log[p]): n <= store.position /\ log[p][n] = Lost
            end == IF store.position < Len(known) THEN store.position ELSE Len(known)
        IN  \/ c.mode \in {"stored", "half"}   \* with a rule off, until a crash or an error shows it
            \/ /\ store.next <= Len(store.value)
               /\ \A n \in 1..store.next: store.value[n] = n - 1
               /\ \/ [store EXCEPT !.own = FALSE] = RestoredFrom(Prefix(known, end))
                  \/ holdsLost /\ ~inUse /\ ~caughtUp
=============================================================================
