(* Lloyd's step, as in `verify/oracles/clustering.py`: a point goes to the nearest center of lowest
   index, a center moves to the mean of its points, a center without points stays. *)
From mathcomp Require Import all_ssreflect all_algebra.
From LeanLloyd Require Import tokens hardmax.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Lloyd.
Variables (F : realFieldType) (n k d : nat).
Implicit Types (X : 'M[F]_(n, d)) (C : 'M[F]_(k, d)).

(* `pick` takes the first in the order of 'I_k, the lowest index. *)
Definition assignment X C (i : 'I_n) : option 'I_k := [pick j in nearest (row i X) C].
Definition cluster X C (j : 'I_k) : {set 'I_n} := [set i | assignment X C i == Some j].
Definition lloyd_step X C : 'M[F]_(k, d) :=
  \matrix_j (if cluster X C j == set0 then row j C else mean (cluster X C j) X).
Definition lloyd t X C : 'M[F]_(k, d) := iter t (lloyd_step X) C.

Definition no_ties X C : Prop :=
  forall i j l, j \in nearest (row i X) C -> l \in nearest (row i X) C -> j = l.
Definition no_empty_cluster X C : Prop := forall j, cluster X C j != set0.

(* The two hypotheses at each of the first t steps of Lloyd's algorithm. *)
Definition good_run t X C : Prop :=
  forall s, (s < t)%N -> no_ties X (lloyd s X C) /\ no_empty_cluster X (lloyd s X C).

Lemma assignment_nearest X C i j : assignment X C i = Some j -> j \in nearest (row i X) C.
Proof. by rewrite /assignment; case: pickP => // l hl [<-]. Qed.

Lemma nearest_without_ties X C i j :
  no_ties X C -> assignment X C i = Some j -> nearest (row i X) C = [set j].
Proof.
move=> ht /assignment_nearest hj; apply/setP => l; rewrite in_set1.
by apply/idP/eqP => [hl|-> //]; apply: ht hl hj.
Qed.

End Lloyd.
