"""
The protocol as data: its types, its methods, and what turns the one into JSON and back.

C{v1} has an attrs class for every type of protocol version 1, and C{v1_unstable} those that are not settled yet,
which load when one of them is asked for (as C{v1.Name}, like the others); C{v2} and C{v2_unstable} are the same for
version 2.  They are made by C{tools/generate_schema.py} from the protocol's JSON Schema and committed; nobody edits
them.  C{methods} and C{methods_v2} are the tables of methods, and C{vocabulary} finds them in these.  C{converter} has
L{structure<converter.structure>} and L{unstructure<converter.unstructure>}, and gives the same to cattrs.

How values look:

  - names are in snake_case, and C{_meta} is C{meta};
  - an optional member that is absent is L{None}, and so is one that is null; where the protocol tells the two apart,
    the absent one is C{values.UNSET};
  - an enumeration is a plain string: its known values are in the type, and an unknown one is kept;
  - a variant of a union that nobody here knows is an L{UnknownVariant<values.UnknownVariant>}, which goes out as it
    came;
  - what the protocol calls an object of any content is a plain C{dict}.

Nothing here imports Twisted.
"""
