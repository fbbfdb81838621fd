(* The constructed layer and Theorem 2.1 in its correct form (docs/theory/expressivity.md). *)
From mathcomp Require Import all_ssreflect all_algebra.
From LeanLloyd Require Import tokens hardmax lloyd.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Exact.
Variables (F : realFieldType) (n k d p : nat).
Implicit Types (X : 'M[F]_(n, d)) (C : 'M[F]_(k, d)) (B : 'M[F]_(k, p)) (Y : 'M[F]_(n, p)).

(* Four modules with query, key and value matrices, each added to the residual
   (`_matrices` and `_layer` in constructions/exact.py): the points read the centers and
   themselves, then the centers read the new points and themselves. *)
Definition layer (T : 'M[F]_(n, d + p) * 'M[F]_(k, d + p)) :
    'M[F]_(n, d + p) * 'M[F]_(k, d + p) :=
  let place := place F d p in let mark := mark F d p in
  let: (P, Z) := T in
  let P' := P + attention place place mark P Z + attention place place (- mark) P P in
  let Z' := Z + attention mark mark place Z P' + attention mark mark (- place) Z Z in
  (P', Z').

Definition embed X C B := (row_mx X (0 : 'M[F]_(n, p)), row_mx C B).

(* The paper's two ways to iterate: hand the tokens on, or embed the new centers afresh. *)
Definition stacked t X C B : 'M[F]_(k, d) := lsubmx (iter t layer (embed X C B)).2.
Definition reembedded t X C B : 'M[F]_(k, d) :=
  iter t (fun C => lsubmx (layer (embed X C B)).2) C.

Definition distinct_codes B : Prop := injective (fun j => row j B).

(* What the layer comes down to: see "The closed form". *)
Definition carried X C B : 'M[F]_(n, p) := \matrix_i mean (nearest (row i X) C) B.
Definition moved X C B : 'M[F]_(k, d) :=
  \matrix_j mean (nearest (row j B) (carried X C B)) X.

Definition function_of_place X Y : Prop :=
  forall i l, row i X = row l X -> row i Y = row l Y.

Lemma nearest_places a s (A : 'M[F]_(a, d)) (O : 'M[F]_(s, d)) i :
  nearest (row i (row_mx A (0 : 'M_(a, p)))) (row_mx O (0 : 'M_(s, p))) = nearest (row i A) O.
Proof.
apply: eq_nearest => l; rewrite !row_row_mx sqdist_row_mx.
have -> : row i (0 : 'M[F]_(a, p)) = row l (0 : 'M[F]_(s, p)) by apply/rowP => c; rewrite !mxE.
by rewrite sqdist_self addr0.
Qed.

Lemma nearest_codes a s (A : 'M[F]_(a, p)) (O : 'M[F]_(s, p)) i :
  nearest (row i (row_mx (0 : 'M_(a, d)) A)) (row_mx (0 : 'M_(s, d)) O) = nearest (row i A) O.
Proof.
apply: eq_nearest => l; rewrite !row_row_mx sqdist_row_mx.
have -> : row i (0 : 'M[F]_(a, d)) = row l (0 : 'M[F]_(s, d)) by apply/rowP => c; rewrite !mxE.
by rewrite sqdist_self add0r.
Qed.

Lemma points_from_centers X Y C B :
  attention (place F d p) (place F d p) (mark F d p) (row_mx X Y) (row_mx C B)
  = row_mx 0 (carried X C B).
Proof.
apply/row_matrixP => i.
rewrite rowK attend_mean !mul_place mul_mark nearest_places mean_row_mx mean0 row_row_mx rowK.
by congr row_mx; apply/rowP => c; rewrite !mxE.
Qed.

Lemma points_from_points X Y : function_of_place X Y ->
  attention (place F d p) (place F d p) (- mark F d p) (row_mx X Y) (row_mx X Y)
  = row_mx 0 (- Y).
Proof.
move=> hY; apply/row_matrixP => i.
rewrite rowK attend_mean mulmxN !mul_place mul_mark nearest_places meanN mean_row_mx mean0.
rewrite (nearest_hit (erefl (row i X))) (mean_const (v := row i Y)).
- by rewrite opp_row_mx oppr0 row_row_mx; congr row_mx; apply/rowP => c; rewrite !mxE.
- by apply/set0Pn; exists i; rewrite inE.
by move=> l; rewrite inE => /eqP /hY.
Qed.

Lemma centers_from_points X Y C B :
  attention (mark F d p) (mark F d p) (place F d p) (row_mx C B) (row_mx X Y)
  = row_mx (\matrix_j mean (nearest (row j B) Y) X) 0.
Proof.
apply/row_matrixP => j.
rewrite rowK attend_mean !mul_mark mul_place nearest_codes mean_row_mx mean0 row_row_mx rowK.
by congr row_mx; apply/rowP => c; rewrite !mxE.
Qed.

Lemma centers_from_centers C B : distinct_codes B ->
  attention (mark F d p) (mark F d p) (- place F d p) (row_mx C B) (row_mx C B)
  = row_mx (- C) 0.
Proof.
move=> hB; apply/row_matrixP => j.
rewrite rowK attend_mean mulmxN !mul_mark mul_place nearest_codes meanN mean_row_mx mean0.
rewrite (nearest_hit (erefl (row j B))) (mean_const (v := row j C)).
- by rewrite opp_row_mx oppr0 row_row_mx; congr row_mx; apply/rowP => c; rewrite !mxE.
- by apply/set0Pn; exists j; rewrite inE.
by move=> l; rewrite inE => /eqP /hB ->.
Qed.

(* One layer on every input: also at ties, with empty clusters and with equal centers. *)
Theorem layer_closed_form X Y C B : distinct_codes B -> function_of_place X Y ->
  layer (row_mx X Y, row_mx C B) = (row_mx X (carried X C B), row_mx (moved X C B) B).
Proof.
move=> hB hY; rewrite /layer points_from_centers points_from_points // !add_row_mx.
rewrite !addr0 [Y + _]addrC addrK centers_from_points centers_from_centers // !add_row_mx.
by rewrite !addr0 -/(moved X C B) [C + _]addrC addrK.
Qed.

Lemma carried_function_of_place X C B : function_of_place X (carried X C B).
Proof. by move=> i l h; rewrite !rowK h. Qed.

Lemma zero_function_of_place X : function_of_place X (0 : 'M[F]_(n, p)).
Proof. by move=> i l _; apply/rowP => c; rewrite !mxE. Qed.

Lemma iter_layer t X C B Y : distinct_codes B -> function_of_place X Y ->
  exists2 Y', function_of_place X Y' &
    iter t layer (row_mx X Y, row_mx C B) = (row_mx X Y', row_mx (iter t (fun C => moved X C B) C) B).
Proof.
move=> hB hY; elim: t => [|t [Y' hY' IH]]; first by exists Y.
exists (carried X (iter t (fun C => moved X C B) C) B); first exact: carried_function_of_place.
by rewrite !iterS IH layer_closed_form.
Qed.

(* t layers on every input, tokens handed on. *)
Theorem stacked_closed_form t X C B : distinct_codes B ->
  stacked t X C B = iter t (fun C => moved X C B) C.
Proof.
move=> hB; rewrite /stacked /embed.
have [Y' _ ->] := iter_layer t C hB (zero_function_of_place (X := X)).
by rewrite row_mxKl.
Qed.

(* t layers on every input, embedded afresh. *)
Theorem reembedded_closed_form t X C B : distinct_codes B ->
  reembedded t X C B = iter t (fun C => moved X C B) C.
Proof.
move=> hB; rewrite /reembedded; apply: eq_iter => {}C.
by rewrite /embed layer_closed_form ?row_mxKl //; apply: zero_function_of_place.
Qed.

(* The step of Theorem 2.1. *)
Lemma moved_is_lloyd_step X C B :
  distinct_codes B -> no_ties X C -> no_empty_cluster X C -> moved X C B = lloyd_step X C.
Proof.
move=> hB ht he; apply/row_matrixP => j; rewrite !rowK (negbTE (he j)); congr (mean _ X).
have hk (j0 : 'I_k) i : assignment X C i = Some j0 -> row i (carried X C B) = row j0 B.
  move=> hi; rewrite rowK (nearest_without_ties ht hi) (mean_const (v := row j0 B)) //.
    by apply/set0Pn; exists j0; rewrite in_set1.
  by move=> l; rewrite in_set1 => /eqP ->.
have /set0Pn [i0] := he j; rewrite inE => /eqP hi0.
rewrite (nearest_hit (hk _ _ hi0)); apply/setP => i; rewrite !inE.
case hi: (assignment X C i) => [l|].
  rewrite (hk _ _ hi); apply/eqP/eqP => [/hB -> //|[->] //].
have hn : nearest (row i X) C = set0.
  apply/setP => l; rewrite in_set0; apply/negbTE/negP => hl.
  by move: hi; rewrite /assignment; case: pickP => [//|/(_ l)]; rewrite hl.
by have := nonempty_nearest (row i X) C j; rewrite hn eqxx.
Qed.

(* Theorem 2.1, corrected: for any distinct codes of any width. *)
Theorem stacked_is_lloyd t X C B :
  distinct_codes B -> good_run t X C -> stacked t X C B = lloyd t X C.
Proof.
move=> hB hg; rewrite stacked_closed_form //; elim: t hg => [//|t IH] hg.
have [ht he] := hg t (ltnSn t).
rewrite iterS IH ?moved_is_lloyd_step // => s hs; apply: hg; exact: ltnW.
Qed.

Theorem reembedded_is_lloyd t X C B :
  distinct_codes B -> good_run t X C -> reembedded t X C B = lloyd t X C.
Proof.
by move=> hB hg; rewrite reembedded_closed_form // -(stacked_closed_form t X C hB) stacked_is_lloyd.
Qed.

End Exact.
