-- Sections, members, stories, comments, and the points that members give and take. Counters stand in the rows that they are of:
-- stories of a section, comments of a member, comments of a story, replies to a comment.
-- Each text ends with the checksum of how a page shows it.
CREATE TABLE sections (se_id int, se_name text, se_stories int);
CREATE TABLE members (me_id int, me_name text, me_password text, me_karma int, me_comments int, me_since date);
CREATE TABLE stories (st_id int, st_se_id int, st_me_id int, st_title text, st_lead text, st_text text, st_time timestamp,
    st_comments int);
-- A comment on the story itself has the parent 0.
CREATE TABLE comments (co_id int, co_st_id int, co_parent int, co_me_id int, co_subject text, co_text text, co_time timestamp,
    co_score int, co_children int);
CREATE TABLE moderations (mo_me_id int, mo_co_id int, mo_change int, mo_time timestamp);
